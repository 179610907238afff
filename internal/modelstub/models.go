package modelstub

import (
	"slices"
	"strings"
)

type modelList struct {
	Object string      `json:"object"`
	Data   []modelInfo `json:"data"`
}

type modelInfo struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// models answers GET /v1/models and GET /v1/models/{id}, at once and without a
// slot.
func (c *call) models() (reply, error) {
	config := c.stub.config
	r := reply{
		id:          requestID(newDigest(config.Seed, c.r.URL.Path, nil)),
		contentType: typeJSON, noSlot: true,
	}
	if c.r.URL.Path == pathModels {
		list := modelList{Object: "list", Data: []modelInfo{}}
		for _, name := range config.Models {
			list.Data = append(list.Data, infoOf(name))
		}
		r.body = encode(list)
		return r, nil
	}
	name := strings.TrimPrefix(c.r.URL.Path, pathModels+"/")
	if !slices.Contains(config.Models, name) {
		return reply{}, modelNotFound(name)
	}
	r.body = encode(infoOf(name))
	return r, nil
}

func infoOf(name string) modelInfo {
	return modelInfo{ID: name, Object: "model", Created: createdBase, OwnedBy: "modelstub"}
}
