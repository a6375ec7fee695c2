/* Endpoints: what is posted leaves late and in any order, what comes takes any receive. */
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

#include "efa_like.h"

static struct like_endpoint *endpoint_of(void *fid)
{
    return fid;
}

/* ------------------------------------------------------------------- leaving */

static ssize_t hand_on(const struct like_endpoint *endpoint, struct like_op *op)
{
    if (op->kind == LIKE_SEND)
        return fi_send(endpoint->inner, op->bytes, op->size, op->descriptor, op->peer, &op->context);
    return fi_writedata(endpoint->inner, op->bytes, op->size, op->descriptor, op->data, op->peer, op->address,
                        op->key, &op->context);
}

static bool is_to_fail(struct like_endpoint *endpoint)
{
    long every = like_setting("EFA_LIKE_FAIL", 0);
    return every > 0 && ++endpoint->operations % (uint64_t)every == 0;
}

void like_launch(struct like_endpoint *endpoint)
{
    while (endpoint->late_count > 0 && like_random(endpoint->domain, 6) > 0) {
        size_t place = like_random(endpoint->domain, (uint32_t)endpoint->late_count);
        struct like_op *op = endpoint->late[place];
        uint64_t flags = op->kind == LIKE_SEND ? FI_SEND | FI_MSG : FI_WRITE | FI_RMA;
        bool fails = is_to_fail(endpoint);
        ssize_t error = fails ? -FI_EIO : hand_on(endpoint, op);
        if (error == -FI_EAGAIN)
            return;
        endpoint->late[place] = endpoint->late[--endpoint->late_count];
        if (error == 0)
            continue;
        endpoint->under_way--;
        like_complete(endpoint->queue, op->user, flags, 0, 0, (int)-error);
        free(op);
    }
}

static bool is_refused(struct like_endpoint *endpoint, fi_addr_t peer, const void *context)
{
    if (!endpoint->enabled)
        like_breach("something is posted before fi_enable()");
    if (peer == FI_ADDR_UNSPEC || peer == FI_ADDR_NOTAVAIL)
        like_breach("something is posted to nobody");
    if (context == NULL)
        like_breach("something is posted without a context, which FI_CONTEXT2 demands");
    long every = like_setting("EFA_LIKE_AGAIN", 4);
    return endpoint->under_way == LIKE_TX_DEPTH ||
           (every > 0 && like_random(endpoint->domain, (uint32_t)every) == 0);
}

static ssize_t post(struct like_endpoint *endpoint, const struct like_op *what, void *descriptor,
                    uint64_t access)
{
    ssize_t error = -FI_EAGAIN;
    like_enter(endpoint->domain);
    if (!is_refused(endpoint, what->peer, what->user)) {
        struct like_op *op = malloc(sizeof *op);
        error = op != NULL ? 0 : -FI_ENOMEM;
        if (op != NULL) {
            *op = *what;
            op->descriptor = like_descriptor(what->bytes, what->size, descriptor, access);
            endpoint->late[endpoint->late_count++] = op;
            endpoint->under_way++;
        }
    }
    like_leave(endpoint->domain);
    return error;
}

static ssize_t message_send(struct fid_ep *fid, const void *bytes, size_t size, void *descriptor,
                            fi_addr_t peer, void *context)
{
    if (size > LIKE_MTU)
        like_breach("a message above the MTU");
    struct like_op op = {
        .kind = LIKE_SEND, .user = context, .bytes = (void *)(uintptr_t)bytes, .size = size, .peer = peer
    };
    return post(endpoint_of(fid), &op, descriptor, FI_SEND);
}

static ssize_t remote_writedata(struct fid_ep *fid, const void *bytes, size_t size, void *descriptor,
                                uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    if (data > UINT32_MAX)
        like_breach("data of more than 32 bits");
    if (size > LIKE_WRITE_MOST)
        like_breach("a write above what the device takes");
    if (like_setting("EFA_LIKE_NO_RMA", 0) != 0)
        like_breach("a remote write, which was not offered");
    struct like_op op = { .kind = LIKE_WRITE,
                          .user = context,
                          .bytes = (void *)(uintptr_t)bytes,
                          .size = size,
                          .peer = peer,
                          .data = data,
                          .address = address,
                          .key = key };
    return post(endpoint_of(fid), &op, descriptor, FI_WRITE);
}

/* -------------------------------------------------------------------- coming */

static ssize_t message_recv(struct fid_ep *fid, void *bytes, size_t size, void *descriptor, fi_addr_t source,
                            void *context)
{
    struct like_endpoint *endpoint = endpoint_of(fid);
    if (context == NULL)
        like_breach("a receive is posted without a context");
    if (source != FI_ADDR_UNSPEC)
        like_breach("a receive from one peer, without FI_DIRECTED_RECV");
    like_descriptor(bytes, size, descriptor, FI_RECV);
    if (endpoint->receive_count == endpoint->rx_depth)
        return -FI_EAGAIN;
    struct like_op *op = malloc(sizeof *op);
    if (op == NULL)
        return -FI_ENOMEM;
    *op = (struct like_op){ .kind = LIKE_RECEIVE, .user = context, .bytes = bytes, .size = size };
    like_enter(endpoint->domain);
    endpoint->receives[endpoint->receive_count++] = op;
    like_leave(endpoint->domain);
    return 0;
}

static struct like_op *take_receive(struct like_endpoint *endpoint)
{
    if (endpoint->receive_count == 0)
        like_breach("something comes and no receive is posted (receiver not ready)");
    size_t place = like_random(endpoint->domain, (uint32_t)endpoint->receive_count);
    struct like_op *op = endpoint->receives[place];
    endpoint->receives[place] = endpoint->receives[--endpoint->receive_count];
    return op;
}

static void post_landing(struct like_endpoint *endpoint, struct like_op *landing)
{
    if (fi_recv(endpoint->inner, landing->bytes, LIKE_MTU, fi_mr_desc(endpoint->landing_region),
                FI_ADDR_UNSPEC, &landing->context) != 0)
        like_breach("(of none) the provider beneath takes no receives");
}

static void corrupt(struct like_endpoint *endpoint, unsigned char *bytes, size_t size)
{
    long every = like_setting("EFA_LIKE_CORRUPT", 0);
    if (every > 0 && ++endpoint->messages % (uint64_t)every == 0 && size > 0)
        bytes[like_random(endpoint->domain, (uint32_t)(size < 96 ? size : 96))] ^=
            (unsigned char)(1U << like_random(endpoint->domain, 8));
}

void like_landed(struct like_endpoint *endpoint, struct like_op *landing, size_t size)
{
    struct like_op *receive = take_receive(endpoint);
    if (size > receive->size)
        like_breach("a message is longer than its receive");
    memcpy(receive->bytes, landing->bytes, size);
    corrupt(endpoint, receive->bytes, size);
    like_complete(endpoint->queue, receive->user, FI_RECV | FI_MSG, size, 0, 0);
    free(receive);
    post_landing(endpoint, landing);
}

void like_written(struct like_endpoint *endpoint, uint64_t data, size_t size)
{
    void *user = NULL;
    if (endpoint->writes_take_receives) {
        struct like_op *receive = take_receive(endpoint);
        user = receive->user;
        free(receive);
    }
    like_complete(endpoint->queue, user, FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA, size, (uint32_t)data,
                  0);
}

/* ------------------------------------------------------------ opening, closing */

static struct fi_ops_msg message_ops = { .size = sizeof message_ops,
                                         .recv = message_recv,
                                         .send = message_send };
static struct fi_ops_rma remote_ops = { .size = sizeof remote_ops, .writedata = remote_writedata };

static int endpoint_getname(struct fid *fid, void *name, size_t *size)
{
    unsigned char inner[LIKE_NAME_BYTES] = { 0 };
    size_t inner_size = sizeof inner, room = *size;
    int error = fi_getname(&endpoint_of(fid)->inner->fid, inner, &inner_size);
    *size = LIKE_NAME_BYTES;
    memcpy(name, inner, room < sizeof inner ? room : sizeof inner);
    return error != 0 ? error : room < sizeof inner ? -FI_ETOOSMALL : 0;
}

static struct fi_ops_cm naming_ops = { .size = sizeof naming_ops, .getname = endpoint_getname };

static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct like_endpoint *endpoint = endpoint_of(fid);
    switch (other->fclass) {
    case FI_CLASS_EQ: endpoint->has_eq = true; return fi_ep_bind(endpoint->inner, other, flags);
    case FI_CLASS_AV:
        return fi_ep_bind(endpoint->inner, &((struct like_av *)(void *)other)->inner->fid, flags);
    case FI_CLASS_CQ:
        endpoint->queue = (struct like_queue *)(void *)other;
        endpoint->queue->endpoint = endpoint;
        return fi_ep_bind(endpoint->inner, &endpoint->queue->inner->fid, flags);
    default: return -FI_EINVAL;
    }
}

static int post_landings(struct like_endpoint *endpoint)
{
    size_t size = (size_t)LIKE_LANDING * LIKE_MTU;
    endpoint->landing_bytes = malloc(size);
    if (endpoint->landing_bytes == NULL)
        return -FI_ENOMEM;
    int error = fi_mr_reg(endpoint->domain->inner, endpoint->landing_bytes, size, FI_RECV, 0, 0, 0,
                          &endpoint->landing_region, NULL);
    for (int i = 0; i < LIKE_LANDING && error == 0; i++) {
        endpoint->landings[i] =
            (struct like_op){ .kind = LIKE_LANDED, .bytes = endpoint->landing_bytes + (size_t)i * LIKE_MTU };
        post_landing(endpoint, &endpoint->landings[i]);
    }
    return error;
}

static int endpoint_control(struct fid *fid, int command, void *argument)
{
    struct like_endpoint *endpoint = endpoint_of(fid);
    (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (!endpoint->has_eq || endpoint->queue == NULL)
        like_breach("an endpoint without an event queue, where internal errors abort the process");
    int error = fi_enable(endpoint->inner);
    if (error == 0)
        error = post_landings(endpoint);
    endpoint->enabled = error == 0;
    return error;
}

static int endpoint_close(struct fid *fid)
{
    struct like_endpoint *endpoint = endpoint_of(fid);
    while (endpoint->late_count > 0)
        free(endpoint->late[--endpoint->late_count]);
    while (endpoint->receive_count > 0)
        free(endpoint->receives[--endpoint->receive_count]);
    if (endpoint->queue != NULL)
        endpoint->queue->endpoint = NULL;
    fi_close(&endpoint->inner->fid);
    if (endpoint->landing_region != NULL)
        fi_close(&endpoint->landing_region->fid);
    free(endpoint->landing_bytes);
    free(endpoint);
    return 0;
}

static struct fi_ops endpoint_fid_ops = { .size = sizeof endpoint_fid_ops,
                                          .close = endpoint_close,
                                          .bind = endpoint_bind,
                                          .control = endpoint_control,
                                          .ops_open = like_no_ops };

static ssize_t no_cancel(fid_t fid, void *context)
{
    (void)fid, (void)context;
    return -FI_ENOSYS;
}

static int no_option(fid_t fid, int level, int option, void *value, size_t *size)
{
    (void)fid, (void)level, (void)option, (void)value, (void)size;
    return -FI_ENOPROTOOPT;
}

static int no_option_set(fid_t fid, int level, int option, const void *value, size_t size)
{
    (void)fid, (void)level, (void)option, (void)value, (void)size;
    return -FI_ENOPROTOOPT;
}

static struct fi_ops_ep endpoint_ops = {
    .size = sizeof endpoint_ops, .cancel = no_cancel, .getopt = no_option, .setopt = no_option_set
};

int like_open_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
    struct like_domain *domain = (struct like_domain *)(void *)fid;
    if (info->rx_attr->size > LIKE_RX_MOST)
        return -FI_EINVAL;
    struct like_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL)
        return -FI_ENOMEM;
    int error = fi_endpoint(domain->inner, domain->fabric->info, &endpoint->inner, NULL);
    if (error != 0) {
        free(endpoint);
        return error;
    }
    endpoint->domain = domain;
    endpoint->rx_depth = info->rx_attr->size > 0 ? info->rx_attr->size : LIKE_RX_DEPTH;
    endpoint->writes_take_receives = (info->mode & FI_RX_CQ_DATA) != 0;
    endpoint->fid.fid = (struct fid){ .fclass = FI_CLASS_EP, .context = context, .ops = &endpoint_fid_ops };
    endpoint->fid.ops = &endpoint_ops;
    endpoint->fid.cm = &naming_ops;
    endpoint->fid.msg = &message_ops;
    endpoint->fid.rma = &remote_ops;
    *out = &endpoint->fid;
    return 0;
}
