/* Rank 0 and its guests: what tcp_host.c and tcp_guest.c share. */
#ifndef PLAIT_BOOTSTRAP_TCP_HOST_H
#define PLAIT_BOOTSTRAP_TCP_HOST_H

#include <poll.h>

#include "bootstrap/tcp.h"

enum guest_state {
    GUEST_HELLO,  /* has to say who it is */
    GUEST_CARD,   /* has to prove the key and hand over its card */
    GUEST_SEATED, /* holds a rank and waits for the outcome */
    GUEST_TOLD    /* has the outcome */
};

struct guest {
    int fd;
    enum guest_state state;
    int64_t since; /* clock_ns() */
    char name[ENDPOINT_TEXT_BYTES];
    struct claim claim;               /* believed once it is seated */
    unsigned char nonce[NONCE_BYTES]; /* ours, for it */
    unsigned char hello[HELLO_BYTES];
    unsigned char in[CARD_FRAME_BYTES];
    size_t got;  /* bytes in `in` */
    size_t told; /* bytes of the outcome that went out */
};

struct host {
    struct exchange *exchange;
    struct listeners listeners;
    struct guest **guests;
    struct pollfd *polls; /* listeners, then guests */
    int guest_count, guest_room, unproven;
    struct guest **seats; /* by rank; NULL: missing */
    int missing;
    int64_t decide_by;
    int64_t full_since, full_until; /* no descriptors; 0: there are */
    int turned_away;
    char last_away[REASON_BYTES + 8];
};

/* Something came from a guest: reads up to the end of one frame, and answers it. The guest may
 * be gone afterwards. Anything but PLAIT_OK is the end of the world. */
plait_status guest_hear(struct host *host, struct guest *guest);

/* Hangs up with one log line that says why. Frees the guest. */
void guest_turn_away(struct host *host, struct guest *guest, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Forgets and frees a guest. The last one takes its place in the list. */
void guest_drop(struct host *host, struct guest *guest);

#endif
