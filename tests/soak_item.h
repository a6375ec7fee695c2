/* One thing that a soak does, of a kind drawn from a number: a collective of any kind, type and operation, a v-form, an
 * operation of the caller's, a message round the ring. Buffers are private, registered or allocated memory. */
#ifndef PLAIT_TESTS_SOAK_ITEM_H
#define PLAIT_TESTS_SOAK_ITEM_H

#include "calls.h"
#include "uneven.h"

enum item_kind { ITEM_FIXED, ITEM_UNEVEN, ITEM_MADE, ITEM_MESSAGE };

/* Operations that a rank makes. */
struct made_ops {
    plait_op add, compose, multiplied;
};

bool made_ops_open(struct rank *rank, struct made_ops *ops);
void made_ops_close(struct rank *rank, const struct made_ops *ops);

enum memory_kind { MEMORY_PRIVATE, MEMORY_REGISTERED, MEMORY_ALLOCATED, MEMORY_KINDS };

/* Where one of a trial's buffers lies. */
struct place {
    struct guarded *room;
    struct guarded own; /* the room's private pages, while it has others */
    enum memory_kind kind;
};

enum { ITEM_PLACES = 4 };

struct item {
    enum item_kind kind;
    const struct made_ops *ops;
    plait_comm *comm; /* NULL: this rank is not in it, and the item is for others */
    uint64_t what;    /* decides the call and its data, the same on all ranks */
    uint64_t how;     /* decides how buffers lie */
    struct trial trial;
    struct uneven_trial uneven;
    struct place places[ITEM_PLACES];
    size_t most_size;     /* bytes of a block */
    plait_work *works[2]; /* a message has two */
    char text[160];
};

bool item_open(struct item *item, const struct made_ops *ops, size_t most_size, int ranks);
void item_close(struct rank *rank, struct item *item);

/* Moves buffers to memory of another kind, now and then, as `random` has it. Nothing may be under way. */
void item_move(struct rank *rank, struct item *item, uint64_t random);
/* Draws the call and fills the buffers. */
void item_prepare(struct item *item, plait_comm *comm, uint64_t what, uint64_t how);
/* Fills the buffers of the same call again, where they are. */
void item_fill(struct item *item);
/* Makes the call; with `as_works` it leaves works. A message that blocks must be in a group. */
plait_status item_call(struct item *item, bool as_works);
bool item_right(struct item *item, char *why, size_t why_size);
/* Of the bits that came out. */
uint64_t item_sum(const struct item *item);

#endif
