/* How the transport over libfabric opens and meets its peers: lifelines first, then an address and a first
 * packet each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/ofi.h"

/* What a rank describes to the others. */
struct blob {
    char provider[24];
    struct lifeline_place place;
    uint32_t name_size;
    unsigned char name[OFI_NAME_BYTES];
};
_Static_assert(sizeof(struct blob) <= TRANSPORT_BLOB_BYTES, "a blob holds it");

/* Packets on their way over one link: fewer in large worlds, for each has its buffer at the receiver.
 * All ranks of a world reckon the same. */
static int credits_for(int size)
{
    enum { BUFFERS = 512 };
    int credits = BUFFERS / size / 2 * 2;
    if (credits > OFI_CREDITS_MOST)
        credits = OFI_CREDITS_MOST;
    return credits < OFI_CREDITS_LEAST ? OFI_CREDITS_LEAST : credits;
}

static size_t receives_for(int peers, int credits)
{
    return (size_t)peers * (size_t)(credits + OFI_FREE_PACKETS);
}

static struct ofi *ofi_of(struct endpoint *endpoint)
{
    return (struct ofi *)(void *)endpoint;
}

/* A large message met its receive: the link to its sender takes it on. */
static void meet(void *context, struct message *message)
{
    struct ofi *ofi = context;
    ofi_link_meet(&ofi->links[message->source], message);
}

static plait_status open_rail(struct ofi *ofi, const struct endpoint_setup *setup,
                              const struct interface_address *address)
{
    const struct ofi_library *library;
    struct ofi_choice choice;
    struct ofi_wish wish = { .provider = setup->provider,
                             .address = address,
                             .receives = receives_for(setup->size, ofi->credits),
                             .no_writes = setup->no_writes };
    plait_status status = ofi_library_open(&library);
    if (status == PLAIT_OK)
        status = ofi_provider_choose(library, &wish, &choice);
    if (status != PLAIT_OK)
        return status;
    ofi->rail_count = 1;
    status = rail_open(&ofi->rails[0], &choice, wish.receives);
    if (status != PLAIT_OK)
        return status;
    log_info("rank %d: libfabric %u.%u (compiled against %d.%d), provider %s on %s: %s; address %s of %s: "
             "%s; large messages go by %s",
             ofi->rank, FI_MAJOR(library->running), FI_MINOR(library->running), FI_MAJOR_VERSION,
             FI_MINOR_VERSION, ofi->rails[0].info->fabric_attr->prov_name,
             ofi->rails[0].info->domain_attr->name, choice.reason, address->text, address->interface,
             address->reason, ofi->rails[0].writes ? "remote writes" : "messages");
    return PLAIT_OK;
}

plait_status ofi_open(const struct endpoint_setup *setup, struct endpoint **endpoint,
                      unsigned char bytes[TRANSPORT_BLOB_BYTES])
{
    struct interface_address address;
    struct blob blob = { .name_size = 0 };
    struct ofi *ofi = calloc(1, sizeof *ofi);
    if (ofi == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the endpoint of rank %d", setup->rank);
    ofi->rank = setup->rank;
    ofi->size = setup->size;
    ofi->lifelines.listener = -1;
    ofi->credits = credits_for(setup->size);
    plait_status status = match_open(&ofi->match, setup->size, meet, ofi);
    if (status == PLAIT_OK)
        status = ofi_address_choose(setup->interface, setup->toward, &address);
    if (status == PLAIT_OK)
        status = open_rail(ofi, setup, &address);
    if (status == PLAIT_OK)
        status = lifelines_open(&ofi->lifelines, setup->rank, setup->size, &address, &blob.place);
    if (status != PLAIT_OK) {
        ofi_close((struct endpoint *)(void *)ofi);
        return status;
    }
    const struct ofi_rail *rail = &ofi->rails[0];
    snprintf(blob.provider, sizeof blob.provider, "%s", rail->info->fabric_attr->prov_name);
    blob.name_size = (uint32_t)rail->name_size;
    memcpy(blob.name, rail->name, rail->name_size);
    memset(bytes, 0, TRANSPORT_BLOB_BYTES);
    memcpy(bytes, &blob, sizeof blob);
    *endpoint = (struct endpoint *)(void *)ofi;
    return PLAIT_OK;
}

/* ---------------------------------------------------------------- connecting */

static plait_status make_tables(struct ofi *ofi, const struct peer *peers, int count)
{
    size_t size = (size_t)ofi->size;
    ofi->links = calloc(size, sizeof *ofi->links);
    ofi->peers = calloc(size, sizeof *ofi->peers);
    ofi->busy = calloc(size / 64 + 1, sizeof *ofi->busy);
    if (ofi->links == NULL || ofi->peers == NULL || ofi->busy == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for links to %d ranks", count);
    for (uint32_t i = 0; i < OFI_SLOTS; i++)
        ofi->free_slots[ofi->free_count++] = i;
    for (int i = 0; i < count; i++) {
        int rank = peers[i].rank;
        if (rank < 0 || rank >= ofi->size || ofi->links[rank].open)
            return failure(PLAIT_INTERNAL, "a peer's rank is %d, which is none or there twice", rank);
        if (rank == ofi->rank)
            continue;
        ofi_link_open(&ofi->links[rank], ofi, rank);
        ofi->peers[ofi->peer_count++] = rank;
    }
    return PLAIT_OK;
}

static plait_status check_blob(const struct ofi *ofi, int rank, struct blob *blob)
{
    const char *own = ofi->rails[0].info->fabric_attr->prov_name;
    blob->provider[sizeof blob->provider - 1] = '\0';
    if (strncmp(blob->provider, own, sizeof blob->provider - 1) != 0)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d uses libfabric's provider %s and rank %d %s; PLAIT_OFI_PROVIDER on all ranks "
                       "makes it one",
                       ofi->rank, own, rank, blob->provider);
    if (blob->name_size > OFI_NAME_BYTES)
        return failure(PLAIT_START_FAILED, "rank %d describes an endpoint that can't be", rank);
    return PLAIT_OK;
}

/* Trades greetings with all peers, over lifelines. */
static plait_status greet(struct ofi *ofi, struct lifelines_meeting *meeting,
                          const struct ofi_landing *landing)
{
    struct lifeline_greeting mine = { .credits = (uint32_t)ofi->credits,
                                      .rails = (uint32_t)ofi->rail_count,
                                      .slots = OFI_SLOTS,
                                      .landings = { *landing } };
    for (int i = 0; i < ofi->peer_count; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        if (getentropy(&link->token_in, sizeof link->token_in) != 0)
            return failure(PLAIT_SYSTEM_ERROR, "the kernel gives no random numbers");
        ofi->lifelines.lines[link->rank].saying.token = link->token_in;
    }
    plait_status status = lifelines_meet(&ofi->lifelines, meeting, &mine);
    for (int i = 0; i < ofi->peer_count && status == PLAIT_OK; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        const struct lifeline_greeting *theirs = &ofi->lifelines.lines[link->rank].greeting;
        if (theirs->credits != mine.credits || theirs->rails != mine.rails || theirs->slots != mine.slots)
            return failure(PLAIT_START_FAILED, "rank %d and rank %d are different builds of Plait", ofi->rank,
                           link->rank);
        memcpy(link->landings, theirs->landings, sizeof link->landings);
        link->token_out = theirs->token;
    }
    return status;
}

static plait_status not_greeted(struct ofi *ofi, const struct ofi_link *link)
{
    if (ofi->lifelines.lines[link->rank].ended)
        return failure(PLAIT_START_FAILED, "rank %d went away while the ranks met", link->rank);
    return failure(PLAIT_START_FAILED,
                   "libfabric's %s does not reach rank %d from rank %d, though a TCP connection does%s%s",
                   ofi->rails[0].info->fabric_attr->prov_name, link->rank, ofi->rank,
                   link->trouble[0] != '\0' ? ": " : "", link->trouble);
}

/* The first packets: what the fabric refuses shows here and not in the first collective. The later rank
 * begins, for `net` of libfabric 1.17 loses connections that both ends open at the same time. */
static plait_status say_hello(struct ofi *ofi, int64_t deadline)
{
    for (int i = 0; i < ofi->peer_count; i++)
        if (ofi->peers[i] < ofi->rank)
            ofi_link_hello(&ofi->links[ofi->peers[i]]);
    for (int i = 0; i < ofi->peer_count; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        while (!link->greeted) {
            if (!ofi_turn(ofi))
                nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
            lifeline_look(&ofi->lifelines, link->rank);
            if (!link->greeted && (ofi->lifelines.lines[link->rank].ended || link->lost ||
                                   link->failing_since != 0 || deadline_passed(deadline)))
                return not_greeted(ofi, link);
        }
    }
    /* A peer waits for ours, and this rank may not ask the provider again for long. */
    while (!rail_is_quiet(&ofi->rails[0]) && !deadline_passed(deadline))
        if (!ofi_turn(ofi))
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    return PLAIT_OK;
}

static plait_status connect_peers(struct ofi *ofi, struct lifelines_meeting *meeting,
                                  struct lifeline_place *places)
{
    struct ofi_rail *rail = &ofi->rails[0];
    struct ofi_landing landing;
    plait_status status = rail_equip(rail, receives_for(ofi->peer_count, ofi->credits), &landing);
    for (int i = 0; i < meeting->count && status == PLAIT_OK; i++) {
        struct blob blob;
        memcpy(&blob, meeting->peers[i].blob, sizeof blob);
        places[i] = blob.place;
        int rank = meeting->peers[i].rank;
        if (rank == ofi->rank)
            continue;
        status = check_blob(ofi, rank, &blob);
        if (status == PLAIT_OK)
            status = rail_add_peer(rail, blob.name, &ofi->links[rank].addresses[0]);
    }
    meeting->places = places;
    if (status == PLAIT_OK)
        status = greet(ofi, meeting, &landing);
    return status == PLAIT_OK ? say_hello(ofi, meeting->deadline) : status;
}

plait_status ofi_connect(struct endpoint *endpoint, const struct peer *peers, int count, uint64_t generation,
                         const unsigned char job_key[32], int64_t deadline)
{
    struct ofi *ofi = ofi_of(endpoint);
    struct lifelines_meeting meeting = {
        .peers = peers, .count = count, .generation = generation, .job_key = job_key, .deadline = deadline
    };
    plait_status status = make_tables(ofi, peers, count);
    if (status != PLAIT_OK || ofi->peer_count == 0)
        return status;
    struct lifeline_place *places = calloc((size_t)count, sizeof *places);
    if (places == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", count);
    status = connect_peers(ofi, &meeting, places);
    free(places);
    return status;
}
