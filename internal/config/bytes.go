package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"headgate/internal/strictyaml"
)

// Bytes is a size in bytes. In a file it is a whole number with a unit: B, kB,
// MB, GB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024).
type Bytes int64

var (
	errBytes     = errors.New("must be a size such as 32MiB, 512KiB or 64MB")
	errBytesUnit = errors.New("must have a unit, such as 32MiB or 64kB")
	errBytesBig  = errors.New("must be a smaller size, less than 8388608TiB")
)

// sizeUnits runs from long to short suffixes, so that B comes last.
var sizeUnits = []struct {
	suffix string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", mib}, {"KiB", kib},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// String writes the size in the largest binary unit that divides it, so that it
// reads back as the same number.
func (b Bytes) String() string {
	for _, u := range sizeUnits {
		if binary := len(u.suffix) == 3; binary && b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	if strictyaml.BareNumber(string(text)) {
		return errBytesUnit
	}
	for _, u := range sizeUnits {
		number, found := strings.CutSuffix(string(text), u.suffix)
		if !found {
			continue
		}
		number = strings.TrimSuffix(number, " ")
		if !strictyaml.AllDigits(number) {
			return errBytes
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/u.factor {
			return errBytesBig
		}
		*b = Bytes(n * u.factor)
		return nil
	}
	return errBytes
}
