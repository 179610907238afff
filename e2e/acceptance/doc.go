// Package proof shows what e2e/rollback shows, so many times that chance has
// little say: hundreds of kill -9 during orders, and hundreds of rollbacks under
// load. And it shows what e2e/drills shows, with every part broken that there is a
// fault for, every built-in drill, and ten kills in every phase. Its tests have the build tag proof and are run by `make proof`.
package acceptance
