//go:build !faults

package main

// inject does nothing outside test builds.
func inject(string) {}
