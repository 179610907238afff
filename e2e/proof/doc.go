// Package proof shows what e2e/rollback shows, so many times that chance has
// little say: hundreds of kill -9 during orders, and hundreds of rollbacks under
// load. Its tests have the build tag proof and are run by `make proof`.
package proof
