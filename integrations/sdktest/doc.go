// Package sdktest holds tests with the providers' own SDKs. It is a module of
// its own, so that nobody who uses lcm has them among its dependencies.
package sdktest
