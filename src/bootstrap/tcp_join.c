/* A joiner: goes round the places where rank 0 may be until one answers as rank 0 of this job does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

enum {
    BACKOFF_FIRST_MS = 5,
    BACKOFF_LAST_MS = 50,
    PATIENCE_FIRST_MS = 200,
    PATIENCE_LAST_MS = 2000,
    RESOLVE_AGAIN_MS = 1000
};

struct candidate {
    struct endpoint endpoint;
    int64_t patience_ms;
    int64_t next_try;
    bool met;  /* somebody was there at some time */
    bool left; /* nobody was the last time */
    char reason[REASON_BYTES];
};

struct search {
    struct exchange *exchange;
    struct candidate *candidates; /* by port, then by address */
    int count;
    int first_port, last_port;
    struct endpoint addresses[ADDRESSES_MAX];
    int address_count;
    int64_t resolve_at;
    char unresolved[REASON_BYTES];
};

static bool same_addresses(const struct search *search, const struct endpoint *list, int count)
{
    return count == search->address_count &&
           memcmp(list, search->addresses, (size_t)count * sizeof *list) == 0;
}

/* Asks for the name's addresses, now and then: a pod's name may come late, or move. */
static plait_status resolve(struct search *search)
{
    struct endpoint list[ADDRESSES_MAX];
    memset(list, 0, sizeof list);
    if (clock_ns() < search->resolve_at)
        return PLAIT_OK;
    int count = tcp_resolve(search->exchange->options->address, list, search->unresolved);
    search->resolve_at = deadline_after_ms(count > 0 ? RESOLVE_AGAIN_MS : RESOLVE_AGAIN_MS / 4);
    if (count == 0 || same_addresses(search, list, count))
        return PLAIT_OK;

    int ports = search->last_port - search->first_port + 1;
    struct candidate *fresh = calloc((size_t)(ports * count), sizeof *fresh);
    if (fresh == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to look for rank 0");
    for (int i = 0; i < ports * count; i++) {
        fresh[i].endpoint = list[i % count];
        fresh[i].patience_ms = PATIENCE_FIRST_MS;
        endpoint_set_port(&fresh[i].endpoint, search->first_port + i / count);
    }
    free(search->candidates);
    search->candidates = fresh;
    search->count = ports * count;
    search->address_count = count;
    memcpy(search->addresses, list, sizeof list);
    return PLAIT_OK;
}

/* When to come back. Refusals are cheap and rank 0 may come any moment; a stranger stays, mostly. */
static void plan_next_try(struct candidate *candidate, enum attempt_end end)
{
    if (end == ATTEMPT_REFUSED || end == ATTEMPT_LOST) {
        candidate->next_try = 0;
        return;
    }
    candidate->next_try = deadline_after_ms(end == ATTEMPT_SILENT ? BACKOFF_LAST_MS : candidate->patience_ms);
    candidate->patience_ms =
        candidate->patience_ms * 2 < PATIENCE_LAST_MS ? candidate->patience_ms * 2 : PATIENCE_LAST_MS;
}

/* Keeps why an attempt failed. That somebody was there tells more than that nobody is there now, and a reason
 * with a remedy more than one without: who has another key may well hang up the next time. */
static void keep_reason(struct candidate *candidate, enum attempt_end end, const char *reason)
{
    bool known = candidate->met && tcp_remedy(candidate->reason)[0] != '\0' && tcp_remedy(reason)[0] == '\0';
    if (end != ATTEMPT_REFUSED && !known)
        snprintf(candidate->reason, REASON_BYTES, "%s", reason);
    else if (end == ATTEMPT_REFUSED && candidate->met && !candidate->left)
        snprintf(candidate->reason + strlen(candidate->reason), REASON_BYTES - strlen(candidate->reason),
                 ", then %s", reason);
    else if (!candidate->met)
        snprintf(candidate->reason, REASON_BYTES, "%s", reason);
    candidate->left = end == ATTEMPT_REFUSED;
    candidate->met = candidate->met || end == ATTEMPT_STRANGE || end == ATTEMPT_LOST;
}

/* One round. PLAIT_IN_PROGRESS: not found. */
static plait_status go_round(struct search *search)
{
    for (int i = 0; i < search->count; i++) {
        struct candidate *candidate = &search->candidates[i];
        plait_status status = PLAIT_IN_PROGRESS;
        if (clock_ns() < candidate->next_try)
            continue;
        if (deadline_passed(search->exchange->options->deadline))
            break;
        char reason[REASON_BYTES] = "";
        enum attempt_end end =
            tcp_attempt(search->exchange, &candidate->endpoint, candidate->patience_ms, reason, &status);
        if (end == ATTEMPT_OVER) {
            endpoint_host(&candidate->endpoint, search->exchange->toward);
            return status;
        }
        keep_reason(candidate, end, reason);
        plan_next_try(candidate, end);
    }
    return PLAIT_IN_PROGRESS;
}

/* "127.0.0.1:29500 has another job key; 127.0.0.1:29501-29515 Connection refused". */
static void tell_candidates(const struct search *search, char *text, size_t text_size)
{
    size_t used = 0;
    int ports = search->address_count > 0 ? search->count / search->address_count : 0;
    text[0] = '\0';
    for (int a = 0; a < search->address_count; a++) {
        for (int first = 0; first < ports; first++) {
            const char *reason = search->candidates[first * search->address_count + a].reason;
            int last = first;
            while (last + 1 < ports &&
                   strcmp(search->candidates[(last + 1) * search->address_count + a].reason, reason) == 0)
                last++;
            char name[ENDPOINT_TEXT_BYTES], range[16] = "";
            endpoint_text(&search->candidates[first * search->address_count + a].endpoint, name);
            if (last > first)
                snprintf(range, sizeof range, "-%d", search->first_port + last);
            if (used + strlen(reason) + 100 < text_size)
                used += (size_t)snprintf(text + used, text_size - used, "%s%s%s: %s", used > 0 ? "; " : "",
                                         name, range, reason[0] != '\0' ? reason : "not tried");
            first = last;
        }
    }
}

/* What to do. If nobody listens anywhere: what else than a late rank 0 that can mean. */
static const char *remedy_of(const struct search *search)
{
    for (int i = 0; i < search->count; i++)
        if (tcp_remedy(search->candidates[i].reason)[0] != '\0')
            return tcp_remedy(search->candidates[i].reason);
    for (int i = 0; i < search->count; i++)
        if (strcmp(search->candidates[i].reason, strerror(ECONNREFUSED)) != 0)
            return "";
    bool loopback = true;
    for (int i = 0; i < search->address_count; i++)
        loopback = loopback && endpoint_is_loopback(&search->addresses[i]);
    if (loopback)
        return "; rank 0 is not there yet, or it is on another host, and then MASTER_ADDR must be its "
               "address; or its "
               "world is complete, and then this number is taken";
    return "; rank 0 is not there yet, or its world is complete, and then this number is taken";
}

static plait_status not_found(const struct search *search)
{
    const struct exchange *exchange = search->exchange;
    char tried[700];
    tell_candidates(search, tried, sizeof tried);
    return failure(PLAIT_START_FAILED,
                   "rank %d of %d, on %s, found no rank 0 within %.1f s at \"%.100s\": %s%s",
                   exchange->self.rank, exchange->self.size, exchange->self.host, exchange_seconds(exchange),
                   exchange->options->address, search->count > 0 ? tried : search->unresolved,
                   search->count > 0 ? remedy_of(search) : "");
}

plait_status tcp_join(struct exchange *exchange)
{
    struct search search = { .exchange = exchange };
    plait_status status;
    int64_t backoff_ms = BACKOFF_FIRST_MS;
    tcp_ports(exchange->options, &search.first_port, &search.last_port);
    for (;;) {
        status = resolve(&search);
        if (status == PLAIT_OK)
            status = go_round(&search);
        if (status != PLAIT_IN_PROGRESS)
            break;
        int64_t left_ms = deadline_left_ms(exchange->options->deadline);
        if (left_ms <= 0) {
            status = not_found(&search);
            break;
        }
        int64_t pause_ms = backoff_ms < left_ms ? backoff_ms : left_ms;
        nanosleep(&(struct timespec){ 0, (long)pause_ms * 1000000 }, NULL);
        backoff_ms = backoff_ms * 2 < BACKOFF_LAST_MS ? backoff_ms * 2 : BACKOFF_LAST_MS;
    }
    free(search.candidates);
    return status;
}
