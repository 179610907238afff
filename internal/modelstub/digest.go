package modelstub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
)

// digest is what an answer's bytes follow from: a digest of the seed, the path
// and the decoded request body.
type digest [sha256.Size]byte

// createdBase is the least creation time that an answer carries, in Unix seconds.
const createdBase = 1_700_000_000

func newDigest(seed uint64, path string, body []byte) digest {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, seed))
	h.Write([]byte(path))
	h.Write([]byte{0}) // so that a path's end and a body's start cannot be confused
	h.Write(body)
	return digest(h.Sum(nil))
}

// name returns an identifier such as "chatcmpl-5f2a…".
func (id digest) name(prefix string) string { return prefix + hex.EncodeToString(id[:12]) }

// created returns a creation time in Unix seconds.
func (id digest) created() int64 {
	return createdBase + int64(binary.BigEndian.Uint32(id[12:])%(1<<25))
}

// rand returns a generator for one part of the answer, such as a choice.
func (id digest) rand(part int) *rand.Rand {
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(id[16:]), splitMix64(uint64(part))))
}

func requestID(id digest) string { return id.name("req_") }

// callID names the tool call of one choice.
func (id digest) callID(choice int) string { return id.name("call_") + strconv.Itoa(choice) }
