/* A collective's arguments, and the fingerprint by which ranks see that they
 * all make the same call. */
#ifndef PLAIT_FAULT_CALL_H
#define PLAIT_FAULT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/layout.h"
#include "base/made_op.h"
#include "plait.h"

struct call {
    enum collective kind;
    plait_type type; /* 0 for a barrier */
    plait_op op;     /* 0 where nothing is reduced; PLAIT_SUM for those that callers make */
    int root;        /* 0 where there is none */
    size_t count;    /* elements of a block; of the longest where they are uneven */
    const void *input;
    void *output;
    const struct layout *layout; /* of a v-form; NULL: even blocks that follow each other */
    bool uneven;                 /* a v-form; its layout is missing when a peer told of it */
    struct made_op *made;        /* an operation that a caller made; NULL: it is the library's own */
};

/* "all-reduce", "all-gatherv" */
const char *call_operation(const struct call *call);

/* Do the ranks of a v-form each give their own counts, which have to be compared? */
static inline bool call_counts_differ(const struct call *call)
{
    return call->layout != NULL && call->layout->print == 0;
}

/* Equal for equal kind, type, op, root and count, or counts where all ranks give the same; different
 * otherwise, but for one chance in 2^63. */
uint64_t call_print(const struct call *call);

enum { CALL_BYTES = 64, CALL_TEXT_BYTES = 160 };

/* The arguments (not the buffers) as bytes that a peer can read. */
void call_pack(const struct call *call, unsigned char bytes[CALL_BYTES]);
/* Takes any bytes. */
struct call call_unpack(const unsigned char bytes[CALL_BYTES]);

/* "all-reduce of 1024 f32, sum"; a v-form's elements are all that this rank hands in or takes. */
void call_describe(const struct call *call, char text[CALL_TEXT_BYTES]);
void call_describe_packed(const unsigned char bytes[CALL_BYTES], char text[CALL_TEXT_BYTES]);

/* The rank's factor in the packed call of a pre-multiplied sum. */
const void *call_factor(const unsigned char bytes[CALL_BYTES]);

/* Where the counts of two packed calls that are alike otherwise differ first: ", whose counts differ first at
 * counts[3]"; "" where they do not. */
void call_compare_counts(const unsigned char one[CALL_BYTES], const unsigned char other[CALL_BYTES],
                         char text[CALL_TEXT_BYTES]);

#endif
