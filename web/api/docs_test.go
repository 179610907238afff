package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/runbooks/control"
	"headgate/web/api"
)

const apiPage = "../../docs/api.md"

// documentedTypes are the types that docs/api.md shows examples of.
var documentedTypes = map[string]reflect.Type{
	"Status": reflect.TypeFor[api.Status](), "ModeRequest": reflect.TypeFor[api.ModeRequest](), "ModeReply": reflect.TypeFor[api.ModeReply](),
	"AuditPage": reflect.TypeFor[control.AuditPage](), "Problem": reflect.TypeFor[api.Problem](),
	"IncidentList": reflect.TypeFor[api.IncidentList](), "IncidentReport": reflect.TypeFor[api.IncidentReport](),
	"SeriesReply": reflect.TypeFor[api.SeriesReply](), "LoginLink": reflect.TypeFor[api.LoginLink](),
	"AckRequest": reflect.TypeFor[api.AckRequest](), "AckReply": reflect.TypeFor[api.AckReply](),
	"DrillList": reflect.TypeFor[api.DrillList](), "DrillRunRequest": reflect.TypeFor[api.DrillRunRequest](), "DrillRunReply": reflect.TypeFor[api.DrillRunReply](),
	"DrillReason": reflect.TypeFor[api.ReasonRequest](), "DrillFreeze": reflect.TypeFor[api.DrillFreeze](), "DrillRunList": reflect.TypeFor[api.DrillRunList](),
	"DrillHistory": reflect.TypeFor[api.DrillHistory](), "DrillExport": reflect.TypeFor[api.DrillExport](),
	"ActionList": reflect.TypeFor[api.ActionList](), "ActionRequest": reflect.TypeFor[api.ActionRequest](), "ActionReply": reflect.TypeFor[api.ActionReply](),
	"SilenceList": reflect.TypeFor[api.SilenceList](), "SilenceRequest": reflect.TypeFor[api.SilenceRequest](), "SilenceReply": reflect.TypeFor[api.SilenceReply](),
}

var example = regexp.MustCompile("(?s)<!-- shape: (\\w+) -->\n```json\n(.*?)```")

// TestPageShowsShapes: every example has exactly the keys of its type, and every
// type and key is there.
func TestPageShowsShapes(t *testing.T) {
	text, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range example.FindAllSubmatch(text, -1) {
		name := string(m[1])
		shape, ok := documentedTypes[name]
		if !ok {
			t.Errorf("an example of %s, which is no shape", name)
			continue
		}
		shown[name] = true
		v := reflect.New(shape)
		dec := json.NewDecoder(bytes.NewReader(m[2]))
		dec.DisallowUnknownFields()
		if err := dec.Decode(v.Interface()); err != nil {
			t.Errorf("example of %s: %v\n%s", name, err, m[2])
			continue
		}
		again, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if json.Unmarshal(m[2], &got) != nil || json.Unmarshal(again, &want) != nil {
			t.Fatal("what was read once is read again")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("example of %s (-as the type has it +as shown):\n%s", name, diff)
		}
	}
	for name, shape := range documentedTypes {
		if !shown[name] {
			t.Errorf("no example of %s", name)
		}
		for _, key := range keysOf(shape) {
			if !strings.Contains(string(text), key) {
				t.Errorf("the key %s of %s is not on the page", key, name)
			}
		}
	}
	for _, route := range []string{"GET /api/v1/status", "PUT /api/v1/mode", "PUT /api/v1/pools/{pool}/mode", "GET /api/v1/audit",
		"POST /api/v1/login-links", "GET /api/v1/series", api.TypeBadFormToken, api.FormHeader,
		"GET /metrics", "GET /healthz", "GET /readyz", api.TypeBadRequest, api.TypeBadToken, api.TypeCrossSite, api.TypeModeConflict,
		api.TypeRecordUnavailable, api.TypeUnknownPool, api.ActorHeader,
		"GET /api/v1/incidents", "GET /api/v1/incidents/{id}", "POST /api/v1/incidents/{id}/ack",
		"GET /api/v1/actions", "POST /api/v1/actions/{name}", api.TypeUnknownAction,
		"GET /api/v1/silences", "POST /api/v1/silences", "DELETE /api/v1/silences/{id}",
		"GET /api/v1/drills", "GET /api/v1/drills/history", "POST /api/v1/drills/{name}/run", "POST /api/v1/drills/freeze", "POST /api/v1/drills/unfreeze", "GET /api/v1/runs",
		"GET /api/v1/runs/{id}", "POST /api/v1/runs/{id}/abort", "GET /api/v1/runs.json", "GET /api/v1/runs.csv",
		api.TypeNoDrills, api.TypeUnknownDrill, api.TypeUnknownRun, api.TypeDrillsFrozen, api.TypeDrillBusy, api.TypeDrillRefused,
		api.TypeMonitoringDisabled, api.TypeUnknownIncident, api.TypeUnknownSilence, api.TypeUnknownRule, api.TypeAlreadyAcked} {
		if !strings.Contains(string(text), route) {
			t.Errorf("%s is not on the page", route)
		}
	}
}

// keysOf lists the JSON keys of a type and of what it holds.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[api.Status]().PkgPath() {
		return nil
	}
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			keys = append(keys, "`"+name+"`")
		}
		keys = append(keys, keysOf(f.Type)...)
	}
	return keys
}
