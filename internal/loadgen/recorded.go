package loadgen

import (
	"embed"
	"fmt"
)

// The recorded traces. Their licence and notice lie beside them, and are
// embedded too so that they travel with the binary.
//
//go:embed traces/code.csv traces/conv.csv traces/README.md traces/LICENSE-Azure-CC-BY-4.0.txt
var traceFiles embed.FS

// CodeTrace returns the recorded arrivals of a coding service: 8,819 in 57
// minutes, on and off, with a peak of 12.7 times the mean. Source and licence
// are in traces/README.md; [TraceNotice] has the text.
func CodeTrace() (Arrivals, error) { return embeddedTrace("traces/code.csv") }

// ConvTrace returns the recorded arrivals of a chat service: 19,366 in 58
// minutes, swelling slowly. Source and licence are as for [CodeTrace].
func ConvTrace() (Arrivals, error) { return embeddedTrace("traces/conv.csv") }

// TraceNotice returns the attribution and the licence of the recorded traces,
// which go wherever the traces go.
func TraceNotice() (string, error) {
	notice, err := traceFiles.ReadFile("traces/README.md")
	if err != nil {
		return "", fmt.Errorf("recorded traces: %w", err)
	}
	licence, err := traceFiles.ReadFile("traces/LICENSE-Azure-CC-BY-4.0.txt")
	if err != nil {
		return "", fmt.Errorf("recorded traces: %w", err)
	}
	return string(notice) + "\n" + string(licence), nil
}

func embeddedTrace(name string) (Arrivals, error) {
	f, err := traceFiles.Open(name)
	if err != nil {
		return nil, fmt.Errorf("recorded traces: %w", err)
	}
	defer f.Close()
	return Trace(f)
}
