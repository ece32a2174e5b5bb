package queue

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// bell is an eventfd: readable while its counter is not zero.
type bell int

func newBell() (bell, error) {
	descriptor, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	return bell(descriptor), err
}

func (b bell) descriptor() int { return int(b) }

func (b bell) ring() {
	one := [8]byte{}
	native.PutUint64(one[:], 1)
	_, _ = unix.Write(int(b), one[:]) // fails only when the counter is full, thus rung
}

func (b bell) reset() {
	var count [8]byte
	_, _ = unix.Read(int(b), count[:]) // fails only when the counter is zero
}
