/* Completions: late and in any order; no more than there is room for. */
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "efa_like.h"

static struct like_queue *queue_of(void *fid)
{
    return fid;
}

void like_complete(struct like_queue *queue, void *user, uint64_t flags, size_t size, uint64_t data,
                   int error)
{
    if (queue->used == queue->size)
        like_breach("the completion queue runs over");
    queue->entries[queue->used++] = (struct fi_cq_err_entry){ .op_context = user,
                                                              .flags = flags,
                                                              .len = size,
                                                              .data = data,
                                                              .err = error,
                                                              .prov_errno = error ? 13 : 0 };
}

/* A completion of the provider beneath. */
static void take(struct like_queue *queue, const struct fi_cq_data_entry *entry)
{
    struct like_endpoint *endpoint = queue->endpoint;
    struct like_op *op = entry->op_context;
    if (entry->flags & FI_REMOTE_WRITE) {
        like_written(endpoint, entry->data, entry->len);
        return;
    }
    if (op->kind == LIKE_LANDED) {
        like_landed(endpoint, op, entry->len);
        return;
    }
    endpoint->under_way--;
    like_complete(queue, op->user, op->kind == LIKE_SEND ? FI_SEND | FI_MSG : FI_WRITE | FI_RMA, 0, 0, 0);
    free(op);
}

static void take_failure(struct like_queue *queue)
{
    struct fi_cq_err_entry entry = { 0 };
    if (fi_cq_readerr(queue->inner, &entry, 0) != 1)
        return;
    struct like_op *op = entry.op_context;
    if (op == NULL || op->kind == LIKE_LANDED)
        return; /* a connection beneath is gone */
    queue->endpoint->under_way--;
    like_complete(queue, op->user, op->kind == LIKE_SEND ? FI_SEND | FI_MSG : FI_WRITE | FI_RMA, 0, 0,
                  FI_EIO);
    free(op);
}

static void poll_inner(struct like_queue *queue)
{
    struct fi_cq_data_entry entries[16];
    for (;;) {
        ssize_t count = fi_cq_read(queue->inner, entries, 16);
        if (count == -FI_EAVAIL)
            take_failure(queue);
        else if (count <= 0)
            return;
        for (ssize_t i = 0; i < count; i++)
            take(queue, &entries[i]);
    }
}

/* Takes one of those that are done; some reads stop before the last. */
static bool pick(struct like_queue *queue, struct fi_cq_err_entry *entry)
{
    if (queue->used == 0 || like_random(queue->domain, 5) == 0)
        return false;
    size_t place = like_random(queue->domain, (uint32_t)queue->used);
    *entry = queue->entries[place];
    queue->entries[place] = queue->entries[--queue->used];
    return true;
}

static ssize_t read_queue(struct like_queue *queue, struct fi_cq_data_entry *entries, size_t most)
{
    struct fi_cq_err_entry entry;
    size_t count = 0;
    if (queue->has_failed)
        return -FI_EAVAIL;
    if (queue->endpoint != NULL && queue->endpoint->enabled) {
        like_launch(queue->endpoint);
        poll_inner(queue);
    }
    while (count < most && pick(queue, &entry)) {
        if (entry.err != 0) {
            queue->failed = entry;
            queue->has_failed = true;
            return count > 0 ? (ssize_t)count : -FI_EAVAIL;
        }
        entries[count++] = (struct fi_cq_data_entry){
            .op_context = entry.op_context, .flags = entry.flags, .len = entry.len, .data = entry.data
        };
    }
    return count > 0 ? (ssize_t)count : -FI_EAGAIN;
}

static ssize_t queue_read(struct fid_cq *fid, void *entries, size_t most)
{
    struct like_queue *queue = queue_of(fid);
    like_enter(queue->domain);
    ssize_t count = read_queue(queue, entries, most);
    like_leave(queue->domain);
    return count;
}

static ssize_t queue_readfrom(struct fid_cq *fid, void *entries, size_t most, fi_addr_t *sources)
{
    ssize_t count = queue_read(fid, entries, most);
    for (ssize_t i = 0; i < count && sources != NULL; i++)
        sources[i] = FI_ADDR_NOTAVAIL;
    return count;
}

static ssize_t queue_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct like_queue *queue = queue_of(fid);
    (void)flags;
    if (!queue->has_failed)
        return -FI_EAGAIN;
    if (entry->err_data != NULL && entry->err_data_size == 0)
        like_breach("an entry for fi_cq_readerr() that is not zeroed");
    *entry = queue->failed;
    queue->has_failed = false;
    return 1;
}

static ssize_t queue_sread(struct fid_cq *fid, void *entries, size_t most, const void *condition, int timeout)
{
    (void)fid, (void)entries, (void)most, (void)condition, (void)timeout;
    return -FI_ENOSYS;
}

static ssize_t queue_sreadfrom(struct fid_cq *fid, void *entries, size_t most, fi_addr_t *sources,
                               const void *condition, int timeout)
{
    (void)sources;
    return queue_sread(fid, entries, most, condition, timeout);
}

static int queue_signal(struct fid_cq *fid)
{
    (void)fid;
    return -FI_ENOSYS;
}

static const char *queue_strerror(struct fid_cq *fid, int error, const void *data, char *text, size_t size)
{
    (void)fid, (void)data;
    if (text != NULL && size > 0)
        snprintf(text, size, "made up, status %d", error);
    return text;
}

static struct fi_ops_cq queue_ops = { .size = sizeof queue_ops,
                                      .read = queue_read,
                                      .readfrom = queue_readfrom,
                                      .readerr = queue_readerr,
                                      .sread = queue_sread,
                                      .sreadfrom = queue_sreadfrom,
                                      .signal = queue_signal,
                                      .strerror = queue_strerror };

static int queue_close(struct fid *fid)
{
    struct like_queue *queue = queue_of(fid);
    if (queue->endpoint != NULL)
        return -FI_EBUSY;
    fi_close(&queue->inner->fid);
    free(queue->entries);
    free(queue);
    return 0;
}

static struct fi_ops queue_fid_ops = { .size = sizeof queue_fid_ops,
                                       .close = queue_close,
                                       .bind = like_no_bind,
                                       .control = like_no_control,
                                       .ops_open = like_no_ops };

int like_open_queue(struct fid_domain *fid, struct fi_cq_attr *attributes, struct fid_cq **out, void *context)
{
    struct like_domain *domain = (struct like_domain *)(void *)fid;
    if (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC)
        return -FI_ENOSYS;
    if (attributes->format != FI_CQ_FORMAT_DATA)
        like_breach("a queue format that carries no data, or tags");
    struct like_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return -FI_ENOMEM;
    queue->size = attributes->size > 0 ? attributes->size : 1024;
    queue->entries = calloc(queue->size, sizeof *queue->entries);
    queue->domain = domain;
    struct fi_cq_attr inner = { .size = 4096, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
    int error = queue->entries == NULL ? -FI_ENOMEM : fi_cq_open(domain->inner, &inner, &queue->inner, NULL);
    if (error != 0) {
        free(queue->entries);
        free(queue);
        return error;
    }
    queue->fid.fid = (struct fid){ .fclass = FI_CLASS_CQ, .context = context, .ops = &queue_fid_ops };
    queue->fid.ops = &queue_ops;
    *out = &queue->fid;
    return 0;
}
