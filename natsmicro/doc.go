// Package natsmicro carries requests between the services over NATS micro:
// the projector's reads, the ingestor's writes, the condenser's and the tools.
//
//	lcm.q.<part>.<verb>   reads; a queue group per partition and verb
//	lcm.w.<verb>          writes
//	lcm.c.condense        one session, now
//	lcm.t.<tenant>.<tool> tools, with their JSON schema as metadata
//
// Requests and answers are the JSON of internal/api. Around them it sees to
// what core request/reply does not: a deadline travels as a header, an error
// comes back with its problem code, a turn that no message holds is fetched in
// parts by the ingestor (large.go), an answer above 512 KiB comes in parts and
// is put together again, a partition nobody serves is named at once, and a
// read without a session asks every projector and merges.
//
// Delivery is at most once: reads are repeatable, writes carry ids.
//
// It is an adapter: it may import the pure packages, internal/api and
// internal/problem; never another adapter or a service.
package natsmicro
