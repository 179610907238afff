// Command headgate is a load-shedding proxy for OpenAI-compatible model endpoints.
// `headgate help` lists its commands. This package turns flags into options: of
// internal/app for serve and check, of internal/demo and internal/modelstub for
// demo and stub, and of internal/cli for commands that talk to a running service.
package main
