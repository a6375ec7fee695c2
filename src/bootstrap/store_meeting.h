/* One rank's part in a round over a store: what the two sides of it share. The
 * protocol is told in store_exchange.c. */
#ifndef PLAIT_BOOTSTRAP_STORE_MEETING_H
#define PLAIT_BOOTSTRAP_STORE_MEETING_H

#include "bootstrap/store_view.h"

enum { SLICE_FIRST_MS = 5, SLICE_LAST_MS = 50 };

struct meeting {
    struct exchange *exchange;
    const struct store_view *view;
    int64_t number;      /* of the round */
    uint64_t generation; /* of the round */
    int64_t slice_ms;    /* how long to wait for one key before looking at the others */
    bool warned;         /* a joiner's: said already that a value is not for us */
    /* rank 0's */
    bool *there;
    bool *warned_of;
    int missing;
    int64_t decide_by;
    /* a joiner's */
    bool awaited;                   /* the round had no outcome yet when it was answered */
    uint64_t over;                  /* the generation of a round known to be over, 0 for none */
    struct claim leader;            /* of the latest round seen; size 0 for none */
    char heard[OUTCOME_TEXT_BYTES]; /* how that one ended, if not with us */
};

/* Rank 0's side, and the others'. */
plait_status meeting_lead(struct meeting *meeting);
plait_status meeting_join(struct meeting *meeting);

/* "plait/NUMBER/WHAT", with "/RANK" unless it is negative. */
void meeting_key(char key[KEY_BYTES], int64_t number, const char *what, int rank);

int64_t meeting_sooner(int64_t a, int64_t b);
int64_t meeting_slice_end(const struct meeting *meeting);
void meeting_grow_slice(struct meeting *meeting);

plait_status meeting_add(struct meeting *meeting, const char *key, int64_t amount, int64_t *sum);
/* The counter that says which round is open. */
plait_status meeting_rounds(struct meeting *meeting, int64_t *number);

/* Seals a frame for its key and sets it. */
plait_status meeting_put(struct meeting *meeting, const char *key, uint64_t generation, unsigned char *frame,
                         size_t size);
/* A frame of at most *size bytes with a good seal: PLAIT_OK. Not there in time: PLAIT_IN_PROGRESS.
 * There and not ours: PLAIT_IN_PROGRESS too, with *foreign set. */
plait_status meeting_fetch(struct meeting *meeting, const char *key, uint64_t generation,
                           unsigned char *frame, size_t *size, int64_t deadline, bool *foreign);
plait_status meeting_fetch_open(struct meeting *meeting, int64_t number, struct claim *claim,
                                uint64_t *generation, int64_t deadline, bool *foreign);
plait_status meeting_fetch_card(struct meeting *meeting, int rank, struct claim *claim, struct card *card,
                                int64_t deadline, bool *foreign);

/* Tells rank 0 of a round why this process can't take its place. */
plait_status meeting_complain(struct meeting *meeting, int64_t number, uint64_t generation,
                              enum complaint what);

#endif
