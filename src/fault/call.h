/* A collective's arguments, and the fingerprint by which ranks see that they
 * all make the same call. */
#ifndef PLAIT_FAULT_CALL_H
#define PLAIT_FAULT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "plait.h"

struct call {
    enum collective kind;
    plait_type type; /* 0 for a barrier */
    plait_op op;     /* 0 where nothing is reduced */
    int root;        /* 0 where there is none */
    size_t count;    /* elements of a block */
    const void *input;
    void *output;
};

/* Equal for equal kind, type, op, root and count; different otherwise, but for
 * one chance in 2^64. */
uint64_t call_print(const struct call *call);

enum { CALL_BYTES = 64, CALL_TEXT_BYTES = 160 };

/* The arguments (not the buffers) as bytes that a peer can read. */
void call_pack(const struct call *call, unsigned char bytes[CALL_BYTES]);
/* Takes any bytes. */
struct call call_unpack(const unsigned char bytes[CALL_BYTES]);

/* "all-reduce of 1024 f32, sum" */
void call_describe(const struct call *call, char text[CALL_TEXT_BYTES]);

#endif
