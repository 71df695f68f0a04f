package guardian

import "testing"

func TestMessageSurvivesTheWire(t *testing.T) {
	m := Message{Kind: Arm, Term: 1, Kill: -2, Value: 1 << 40, ByDeadline: true, Leftovers: Leave, Grace: 5, Locks: 7, Hold: true,
		As: Identity{Set: true, Groups: 2, UID: 1, GID: 1 << 31, Group: [MaxGroups]uint32{3, 4}}, Umask: 0o27, Nice: -5}
	if got, err := Decode(m.Encode()); err != nil || got != m {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
	if _, err := Decode(m.Encode()[1:]); err == nil {
		t.Error("a short message is understood")
	}
}
