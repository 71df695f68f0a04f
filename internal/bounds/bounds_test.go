package bounds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/keys"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// own are the texts that have bounds of their own: keys (rule L13), names of jobs, ids that a store looks up, and
// definitions, which a cut would change.
var own = []string{"Key", "Job", "Name", "Definition", "Past", "Event.ID"}

// fill puts a text of n bytes into every text of v, and one item into every slice, map and pointer.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("é", n/2))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name").Convert(v.Type().Key()), value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	}
}

// longest lists the texts of v that are longer than most.
func longest(v reflect.Value, name string, most int) (all []string) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > most {
			all = append(all, name)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			all = longest(v.Elem(), name, most)
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, longest(v.Index(i), name, most)...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			all = append(all, longest(v.MapIndex(k), name, most)...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && !slices.Contains(own, f.Name) && !slices.Contains(own, v.Type().Name()+"."+f.Name) {
				all = append(all, longest(v.Field(i), name+"."+f.Name, most)...)
			}
		}
	}
	return all
}

func check[T kept](t *testing.T) {
	var v T
	fill(reflect.ValueOf(&v).Elem(), 1<<20)
	before := fmt.Sprintf("%+v", v)
	got := Of(v)
	for _, name := range longest(reflect.ValueOf(got), reflect.TypeFor[T]().String(), keys.MostText) {
		t.Errorf("%s is not bounded", name)
	}
	if fmt.Sprintf("%+v", v) != before {
		t.Errorf("%T: the caller's own was changed", v)
	}
	if again := Of(got); !reflect.DeepEqual(again, got) {
		t.Errorf("%T: a second cut changed what the first one left", v)
	}
}

// Every text that a store keeps is bounded, also in a field that somebody adds.
// Holds: promise 24.
func TestEveryTextIsBounded(t *testing.T) {
	check[[]lease.AcquireRequest](t)
	check[lease.Holder](t)
	check[lease.Broken](t)
	check[[]tick.ClaimRequest](t)
	check[tick.TakeRequest](t)
	check[[]tick.StartRequest](t)
	check[[]tick.CloseRequest](t)
	check[tick.PauseRequest](t)
	check[tick.SettleRequest](t)
	check[[]tick.Tick](t)
	check[[]run.Record](t)
	check[[]history.Event](t)
}
