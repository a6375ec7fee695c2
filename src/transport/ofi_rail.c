#include "transport/ofi_rail.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

enum { CQ_SPARE = 64 };

static plait_status trouble(const struct ofi_rail *rail, const char *what, long error)
{
    plait_status status = error == -FI_ENOMEM ? PLAIT_OUT_OF_MEMORY : PLAIT_SYSTEM_ERROR;
    return failure(status, "libfabric's %s can't %s: %s (%ld)", rail->info->fabric_attr->prov_name, what,
                   rail->library->strerror((int)-error), error);
}

/* ------------------------------------------------------------------ endpoint */

/* One that can be slept on, where the provider has that. */
static int open_queue(struct ofi_rail *rail, struct fi_cq_attr *attributes)
{
    attributes->wait_obj = FI_WAIT_FD;
    if (fi_cq_open(rail->domain, attributes, &rail->cq, NULL) == 0) {
        if (fi_control(&rail->cq->fid, FI_GETWAIT, &rail->wait_fd) != 0)
            rail->wait_fd = -1;
        return 0;
    }
    attributes->wait_obj = FI_WAIT_NONE;
    return fi_cq_open(rail->domain, attributes, &rail->cq, NULL);
}

static int open_queues(struct ofi_rail *rail, size_t receives)
{
    struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
    struct fi_cq_attr cq = { .size = receives + OFI_PACKETS_OUT + OFI_PIECES_OUT + OFI_SLOTS + CQ_SPARE,
                             .format = FI_CQ_FORMAT_DATA };
    struct fi_av_attr av = { .type = FI_AV_TABLE };
    int error = fi_eq_open(rail->fabric, &eq, &rail->eq, NULL);
    if (error == 0)
        error = open_queue(rail, &cq);
    if (error == 0)
        error = fi_av_open(rail->domain, &av, &rail->av, NULL);
    return error;
}

/* An endpoint with room for `receives`, or with the provider's own number where it refuses that. */
static int open_endpoint(struct ofi_rail *rail)
{
    int error = fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
    if (error != 0) {
        rail->info->rx_attr->size = 0;
        error = fi_endpoint(rail->domain, rail->info, &rail->ep, NULL);
    }
    if (error == 0)
        error = fi_ep_bind(rail->ep, &rail->av->fid, 0);
    if (error == 0)
        error = fi_ep_bind(rail->ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
    /* Some providers abort the process when something goes wrong and no event queue is bound; some
     * have no use for one and refuse it. */
    if (error == 0)
        fi_ep_bind(rail->ep, &rail->eq->fid, 0);
    if (error == 0)
        error = fi_enable(rail->ep);
    return error;
}

plait_status rail_open(struct ofi_rail *rail, struct ofi_choice *choice, size_t receives)
{
    *rail = (struct ofi_rail){ .library = choice->library,
                               .info = choice->info,
                               .writes = choice->writes,
                               .wait_fd = -1,
                               .name_size = OFI_NAME_BYTES };
    choice->info = NULL;
    int error = rail->library->fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (error != 0)
        return trouble(rail, "open its fabric", error);
    error = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    if (error != 0)
        return trouble(rail, "open its device", error);
    error = open_queues(rail, receives);
    if (error != 0)
        return trouble(rail, "open its queues", error);
    error = open_endpoint(rail);
    if (error != 0)
        return trouble(rail, "open an endpoint", error);
    error = fi_getname(&rail->ep->fid, rail->name, &rail->name_size);
    if (error != 0)
        return trouble(rail, "tell its address", error);
    return PLAIT_OK;
}

static void close_fid(struct fid *fid)
{
    if (fid != NULL)
        fi_close(fid);
}

void rail_close(struct ofi_rail *rail)
{
    if (rail->info == NULL)
        return;
    if (rail->ep != NULL)
        close_fid(&rail->ep->fid);
    if (rail->local != NULL)
        close_fid(&rail->local->fid);
    if (rail->landing != NULL)
        close_fid(&rail->landing->fid);
    if (rail->av != NULL)
        close_fid(&rail->av->fid);
    if (rail->cq != NULL)
        close_fid(&rail->cq->fid);
    if (rail->eq != NULL)
        close_fid(&rail->eq->fid);
    if (rail->domain != NULL)
        close_fid(&rail->domain->fid);
    if (rail->fabric != NULL)
        close_fid(&rail->fabric->fid);
    if (rail->memory != NULL)
        munmap(rail->memory, rail->memory_size);
    free(rail->ops);
    rail->library->freeinfo(rail->info);
    *rail = (struct ofi_rail){ 0 };
}

plait_status rail_add_peer(struct ofi_rail *rail, const void *name, fi_addr_t *address)
{
    int inserted = fi_av_insert(rail->av, name, 1, address, 0, NULL);
    return inserted == 1 ? PLAIT_OK
                         : trouble(rail, "take a peer's address", inserted < 0 ? inserted : -FI_EINVAL);
}

/* -------------------------------------------------------------------- memory */

/* Registers a range as the provider wants it. The key is ours where the provider makes none: drawn, so
 * that a peer of an earlier world can't hit it by chance. */
static int register_range(struct ofi_rail *rail, void *bytes, size_t size, uint64_t access,
                          struct fid_mr **region)
{
    uint32_t key;
    if (getentropy(&key, sizeof key) != 0)
        key = (uint32_t)(uintptr_t)bytes;
    int error = fi_mr_reg(rail->domain, bytes, size, access, 0, key & INT32_MAX, 0, region, NULL);
    if (error != 0 || (rail->info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0)
        return error;
    error = fi_mr_bind(*region, &rail->ep->fid, 0);
    return error != 0 ? error : fi_mr_enable(*region);
}

static plait_status register_memory(struct ofi_rail *rail, struct ofi_landing *landing)
{
    size_t private = (size_t)(rail->slots - rail->memory), shared = rail->memory_size - private;
    int error =
        register_range(rail, rail->memory, private, FI_SEND | FI_RECV | FI_READ | FI_WRITE, &rail->local);
    if (error == 0 && rail->writes)
        error = register_range(rail, rail->slots, shared, FI_REMOTE_WRITE, &rail->landing);
    if (error != 0)
        return failure(PLAIT_OUT_OF_RESOURCES,
                       "libfabric's %s can't register %zu bytes: %s; ulimit -l limits what may be locked",
                       rail->info->fabric_attr->prov_name, rail->memory_size,
                       rail->library->strerror(-error));
    *landing = (struct ofi_landing){ 0 };
    if (rail->writes) {
        bool virtual = (rail->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
        landing->address = virtual ? (uint64_t)(uintptr_t)rail->slots : 0;
        landing->key = fi_mr_key(rail->landing);
    }
    return PLAIT_OK;
}

/* Cuts `count` operations with buffers of `size` bytes from *memory on. */
static struct ofi_op *cut(struct ofi_op **next, unsigned char **memory, size_t count, size_t size,
                          enum ofi_op_kind kind)
{
    struct ofi_op *list = NULL;
    for (size_t i = 0; i < count; i++) {
        struct ofi_op *op = (*next)++;
        *op = (struct ofi_op){ .kind = kind, .bytes = *memory, .next = list };
        *memory += size;
        list = op;
    }
    return list;
}

static void post_receive(struct ofi_rail *rail, struct ofi_op *op)
{
    ssize_t error =
        fi_recv(rail->ep, op->bytes, OFI_PACKET_BYTES, fi_mr_desc(rail->local), FI_ADDR_UNSPEC, &op->context);
    if (error == 0)
        return;
    op->next = rail->unposted;
    rail->unposted = op;
}

/* Posts what had no room before. */
static void post_again(struct ofi_rail *rail)
{
    struct ofi_op *list = rail->unposted;
    rail->unposted = NULL;
    while (list != NULL) {
        struct ofi_op *op = list;
        list = op->next;
        post_receive(rail, op);
    }
}

plait_status rail_equip(struct ofi_rail *rail, size_t receives, struct ofi_landing *landing)
{
    if ((rail->info->mode & FI_RX_CQ_DATA) != 0) /* there a peer's write takes a posted receive */
        receives += OFI_SLOTS;
    size_t slots = rail->writes ? OFI_SLOTS : 0, pieces = rail->writes ? OFI_PIECES_OUT : 0;
    size_t private = (receives + OFI_PACKETS_OUT) * OFI_PACKET_BYTES + pieces * OFI_SLOT_BYTES;
    rail->op_count = receives + OFI_PACKETS_OUT + pieces;
    rail->ops = calloc(rail->op_count, sizeof *rail->ops);
    rail->memory_size = private + slots * OFI_SLOT_BYTES;
    void *memory = mmap(NULL, rail->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || rail->ops == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %zu bytes of network buffers", rail->memory_size);
    rail->memory = memory;
    rail->slots = rail->memory + private;
    plait_status status = register_memory(rail, landing);
    if (status != PLAIT_OK)
        return status;
    struct ofi_op *op = rail->ops;
    unsigned char *next = rail->memory;
    rail->unposted = cut(&op, &next, receives, OFI_PACKET_BYTES, OFI_OP_RECEIVE);
    rail->packets = cut(&op, &next, OFI_PACKETS_OUT, OFI_PACKET_BYTES, OFI_OP_SEND);
    rail->pieces = cut(&op, &next, pieces, OFI_SLOT_BYTES, OFI_OP_WRITE);
    post_again(rail);
    if (rail->unposted == NULL)
        return PLAIT_OK;
    return failure(PLAIT_OUT_OF_RESOURCES,
                   "libfabric's %s takes fewer than the %zu receive buffers that a world of this size needs",
                   rail->info->fabric_attr->prov_name, receives);
}

static struct ofi_op *take(struct ofi_op **list)
{
    struct ofi_op *op = *list;
    if (op != NULL)
        *list = op->next;
    return op;
}

struct ofi_op *rail_take_packet(struct ofi_rail *rail)
{
    struct ofi_op *op = take(&rail->packets);
    rail->packets_out += op != NULL;
    return op;
}

struct ofi_op *rail_take_piece(struct ofi_rail *rail)
{
    return take(&rail->pieces);
}

void rail_give(struct ofi_rail *rail, struct ofi_op *op)
{
    if (op->kind == OFI_OP_RECEIVE) {
        post_receive(rail, op);
        return;
    }
    op->send = NULL;
    op->id = 0;
    rail->packets_out -= op->kind == OFI_OP_SEND;
    struct ofi_op **list = op->kind == OFI_OP_SEND ? &rail->packets : &rail->pieces;
    op->next = *list;
    *list = op;
}

/* ------------------------------------------------------------------- traffic */

int rail_send(struct ofi_rail *rail, struct ofi_op *op, fi_addr_t address)
{
    return (int)fi_send(rail->ep, op->bytes, op->size, fi_mr_desc(rail->local), address, &op->context);
}

int rail_write(struct ofi_rail *rail, struct ofi_op *op, fi_addr_t address, uint64_t key)
{
    return (int)fi_writedata(rail->ep, op->bytes, op->size, fi_mr_desc(rail->local), op->immediate, address,
                             op->to, key, &op->context);
}

bool rail_may_sleep(const struct ofi_rail *rail)
{
    struct fid *queue = &rail->cq->fid;
    return rail->unposted == NULL && fi_trywait(rail->fabric, &queue, 1) == 0;
}

static void read_failure(struct ofi_rail *rail, struct ofi_event *event)
{
    struct fi_cq_err_entry entry = { 0 };
    char text[96] = "";
    *event = (struct ofi_event){ .kind = OFI_EVENT_FAILED };
    if (fi_cq_readerr(rail->cq, &entry, 0) <= 0)
        return;
    const char *detail = fi_cq_strerror(rail->cq, entry.prov_errno, entry.err_data, text, sizeof text);
    event->op = entry.op_context;
    snprintf(event->trouble, sizeof event->trouble, "%s: %s (%d, the provider's %d)",
             rail->info->fabric_attr->prov_name,
             detail != NULL ? detail : rail->library->strerror(abs(entry.err)), entry.err, entry.prov_errno);
}

static void write_event(const struct ofi_rail *rail, const struct fi_cq_data_entry *entry,
                        struct ofi_event *event)
{
    /* Only writes carry data of ours, and some providers (shm of libfabric 2.1) tell no more than that. */
    if ((entry->flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) == 0) {
        *event = (struct ofi_event){ .kind = OFI_EVENT_DONE, .op = entry->op_context, .size = entry->len };
        return;
    }
    bool took_receive = (rail->info->mode & FI_RX_CQ_DATA) != 0;
    *event = (struct ofi_event){ .kind = OFI_EVENT_WRITTEN,
                                 .op = took_receive ? entry->op_context : NULL,
                                 .immediate = (uint32_t)entry->data };
}

int rail_poll(struct ofi_rail *rail, struct ofi_event *events, int most)
{
    enum { BATCH = 16 };
    struct fi_cq_data_entry entries[BATCH];
    if (rail->unposted != NULL)
        post_again(rail);
    ssize_t count = fi_cq_read(rail->cq, entries, (size_t)(most < BATCH ? most : BATCH));
    if (count == -FI_EAVAIL) {
        read_failure(rail, events);
        return 1;
    }
    for (ssize_t i = 0; i < count; i++)
        write_event(rail, &entries[i], &events[i]);
    return count < 0 ? 0 : (int)count;
}
