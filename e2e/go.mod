module headgate/e2e

go 1.26.0

replace headgate => ../

require headgate v0.0.0-00010101000000-000000000000

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/failsafe-go/failsafe-go v0.9.8 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)
