//go:build faults

package main

// #include <stdlib.h>
import "C"

import "unsafe"

// inject panics in the place that the environment variable names: test builds only.
func inject(place string) {
	name := C.CString("PROSODY_FAULT")
	defer C.free(unsafe.Pointer(name))
	if wanted := C.getenv(name); wanted != nil && C.GoString(wanted) == place {
		panic("injected fault in " + place)
	}
}
