package rules

import (
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
)

// Diagnostic is one refusal of a file.
type Diagnostic = strictyaml.Diagnostic

// Diagnostics are all refusals of one file, in its order.
type Diagnostics = strictyaml.Diagnostics

// decoder reads the settings of a file, and collects its problems.
type decoder struct{ *strictyaml.Decoder }

func newDecoder(file string) decoder { return decoder{strictyaml.NewDecoder(file)} }

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxFile+1))
}

// textList reads a list of texts.
func (l decoder) textList(to *[]string, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		*to = []string{}
		l.List(most, func(n *yaml.Node, path string) {
			var one string
			l.Text(&one)(n, path)
			*to = append(*to, one)
		})(n, path)
	}
}

// number reads a finite number.
func (l decoder) number(to *float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a finite number such as 0.95, is "+strictyaml.Display(n))
			return
		}
		*to = v
	}
}

// duration reads a duration as PromQL writes them.
func (l decoder) duration(to *time.Duration) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		d, err := model.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a duration such as 30s, 5m or 1h30m, is "+strictyaml.Display(n))
			return
		}
		*to = time.Duration(d)
	}
}
