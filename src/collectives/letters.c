#include "collectives/letters.h"

#include <stdlib.h>

#include "base/status.h"
#include "collectives/notice.h"

static plait_status make(struct group *group)
{
    size_t ranks = (size_t)group->ranks;
    struct letters *letters = calloc(1, sizeof *letters);
    if (letters != NULL) {
        letters->letters = calloc(ranks, sizeof *letters->letters);
        letters->sends = calloc(ranks, sizeof *letters->sends);
        letters->receives = calloc(ranks, sizeof *letters->receives);
    }
    if (letters == NULL || letters->letters == NULL || letters->sends == NULL || letters->receives == NULL) {
        letters_free(letters);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for letters to %d ranks", group->ranks);
    }
    group->letters = letters;
    return PLAIT_OK;
}

void letters_free(struct letters *letters)
{
    if (letters == NULL)
        return;
    free(letters->letters);
    free(letters->sends);
    free(letters->receives);
    free(letters);
}

static struct transfer letter_to(const struct execution *x, int rank, struct letter *letter)
{
    return (struct transfer){
        .peer = x->group->world_ranks[rank],
        .key = { .context = x->group->context, .operation = x->number, .place = LETTER_PLACE },
        .data = letter,
        .size = sizeof *letter,
        .status = PLAIT_IN_PROGRESS
    };
}

plait_status letters_begin(struct execution *x)
{
    struct group *group = x->group;
    plait_status status = group->letters == NULL ? make(group) : PLAIT_OK;
    if (status != PLAIT_OK)
        return status;
    struct letters *letters = group->letters;
    struct letter *own = &letters->letters[group->rank];
    own->print = x->print;
    call_pack(execution_call(x), own->call);
    for (int i = 1; i < group->ranks; i++) { /* the next one first, so that not all write to rank 0 */
        int to = (group->rank + i) % group->ranks, from = (group->rank + group->ranks - i) % group->ranks;
        letters->sends[to] = letter_to(x, to, own);
        letters->receives[from] = letter_to(x, from, &letters->letters[from]);
        group->transport->recv(group->endpoint, &letters->receives[from]);
        group->transport->send(group->endpoint, &letters->sends[to]);
    }
    letters->open = true;
    return PLAIT_OK;
}

int letters_missing(const struct execution *x)
{
    const struct group *group = x->group;
    for (int rank = 0; rank < group->ranks; rank++)
        if (rank != group->rank && group->letters->receives[rank].status == PLAIT_IN_PROGRESS)
            return rank;
    return -1;
}

/* How the letters to and from `rank` do. */
static plait_status state_of(const struct letters *letters, int rank)
{
    plait_status received = letters->receives[rank].status;
    return received != PLAIT_OK ? received : letters->sends[rank].status;
}

bool letters_meet(struct execution *x)
{
    struct group *group = x->group;
    for (; x->seen < group->ranks; x->seen++) {
        if (x->seen == group->rank)
            continue;
        plait_status status = state_of(group->letters, x->seen);
        if (status == PLAIT_IN_PROGRESS)
            return false;
        if (status != PLAIT_OK) {
            x->waiting = x->seen; /* the culprit */
            x->phase = PHASE_DONE;
            x->status = status;
            return false;
        }
        x->differs |= group->letters->letters[x->seen].print ^ x->print;
        x->moved = true;
    }
    group->letters->open = false;
    if (x->differs != 0) {
        execution_cancel(x); /* of its messages */
        notice_end_by_mismatch(x);
        return false;
    }
    x->met = true;
    return true;
}

void letters_cancel(struct execution *x)
{
    const struct group *group = x->group;
    struct letters *letters = group->letters;
    if (letters == NULL || !letters->open)
        return;
    for (int rank = 0; rank < group->ranks; rank++) {
        if (rank == group->rank)
            continue;
        group->transport->cancel(group->endpoint, &letters->sends[rank]);
        group->transport->cancel(group->endpoint, &letters->receives[rank]);
    }
    letters->open = false;
}
