/* What is offered, and the objects that only pass things on. */
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "efa_like.h"

static const uint64_t KINDS = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE | FI_READ |
                              FI_REMOTE_READ | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE;
static const int REGISTRATION = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;

long like_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 0) : otherwise;
}

void like_breach(const char *what)
{
    fprintf(stderr, "efa_like: a breach of the contract (seed %ld): %s\n", like_setting("EFA_LIKE_SEED", 1),
            what);
    abort();
}

uint32_t like_random(struct like_domain *domain, uint32_t limit)
{
    domain->random ^= domain->random << 13;
    domain->random ^= domain->random >> 17;
    domain->random ^= domain->random << 5;
    return domain->random % limit;
}

void like_enter(struct like_domain *domain)
{
    if (atomic_fetch_add(&domain->inside, 1) != 0)
        like_breach("two threads in one domain, which FI_THREAD_DOMAIN forbids");
}

void like_leave(struct like_domain *domain)
{
    atomic_fetch_sub(&domain->inside, 1);
}

int like_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return -FI_ENOSYS;
}

int like_no_control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)command, (void)argument;
    return -FI_ENOSYS;
}

int like_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

/* ----------------------------------------------------------------- addresses */

/* A name is the inner one's in a longer frame, so each is passed on by itself. */
static int av_insert(struct fid_av *fid, const void *names, size_t count, fi_addr_t *addresses,
                     uint64_t flags, void *context)
{
    struct like_av *av = (struct like_av *)(void *)fid;
    int inserted = 0;
    for (size_t i = 0; i < count; i++)
        inserted += fi_av_insert(av->inner, (const char *)names + i * LIKE_NAME_BYTES, 1, &addresses[i],
                                 flags, context) == 1;
    return inserted;
}

static struct fi_ops_av av_ops = { .size = sizeof av_ops, .insert = av_insert };

static int av_close(struct fid *fid)
{
    struct like_av *av = (struct like_av *)(void *)fid;
    fi_close(&av->inner->fid);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = { .size = sizeof av_fid_ops,
                                    .close = av_close,
                                    .bind = like_no_bind,
                                    .control = like_no_control,
                                    .ops_open = like_no_ops };

int like_open_av(struct fid_domain *fid, struct fi_av_attr *attributes, struct fid_av **out, void *context)
{
    struct fi_av_attr inner = { .type = FI_AV_TABLE };
    if (attributes->type == FI_AV_MAP)
        return -FI_EINVAL;
    struct like_av *av = calloc(1, sizeof *av);
    if (av == NULL)
        return -FI_ENOMEM;
    int error = fi_av_open(((struct like_domain *)(void *)fid)->inner, &inner, &av->inner, NULL);
    if (error != 0) {
        free(av);
        return error;
    }
    av->fid.fid = (struct fid){ .fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops };
    av->fid.ops = &av_ops;
    *out = &av->fid;
    return 0;
}

/* -------------------------------------------------------------------- memory */

static int region_close(struct fid *fid)
{
    struct like_region *region = (struct like_region *)(void *)fid;
    fi_close(&region->inner->fid);
    free(region);
    return 0;
}

static struct fi_ops region_fid_ops = { .size = sizeof region_fid_ops,
                                        .close = region_close,
                                        .bind = like_no_bind,
                                        .control = like_no_control,
                                        .ops_open = like_no_ops };

static int region_regattr(struct fid *fid, const struct fi_mr_attr *attributes, uint64_t flags,
                          struct fid_mr **out)
{
    struct like_domain *domain = (struct like_domain *)(void *)fid;
    static _Atomic uint32_t keys = 0x51000000; /* the device's, whatever was asked for */
    if (attributes->iov_count != 1 || flags != 0)
        return -FI_EINVAL;
    struct like_region *region = calloc(1, sizeof *region);
    if (region == NULL)
        return -FI_ENOMEM;
    struct fi_mr_attr inner = *attributes;
    inner.requested_key = atomic_fetch_add(&keys, 7);
    int error = fi_mr_regattr(domain->inner, &inner, 0, &region->inner);
    if (error != 0) {
        free(region);
        return error;
    }
    region->base = (uintptr_t)attributes->mr_iov->iov_base;
    region->size = attributes->mr_iov->iov_len;
    region->access = attributes->access;
    region->fid.fid =
        (struct fid){ .fclass = FI_CLASS_MR, .context = attributes->context, .ops = &region_fid_ops };
    region->fid.mem_desc = region;
    region->fid.key = fi_mr_key(region->inner);
    *out = &region->fid;
    return 0;
}

static int region_reg(struct fid *fid, const void *bytes, size_t size, uint64_t access, uint64_t offset,
                      uint64_t key, uint64_t flags, struct fid_mr **region, void *context)
{
    struct iovec range = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
    struct fi_mr_attr attributes = { .mr_iov = &range,
                                     .iov_count = 1,
                                     .access = access,
                                     .offset = offset,
                                     .requested_key = key,
                                     .context = context };
    return region_regattr(fid, &attributes, flags, region);
}

struct fi_ops_mr like_region_ops = { .size = sizeof like_region_ops,
                                     .reg = region_reg,
                                     .regattr = region_regattr };

void *like_descriptor(const void *bytes, size_t size, void *descriptor, uint64_t access)
{
    const struct like_region *region = descriptor;
    if (region == NULL)
        like_breach("a buffer without a descriptor, which FI_MR_LOCAL demands");
    if ((uintptr_t)bytes < region->base || (uintptr_t)bytes + size > region->base + region->size)
        like_breach("a buffer outside the registration of its descriptor");
    if ((region->access & access) == 0)
        like_breach("a registration without the access that is used");
    return fi_mr_desc(region->inner);
}

/* ----------------------------------------------------------- domain and fabric */

static int domain_close(struct fid *fid)
{
    struct like_domain *domain = (struct like_domain *)(void *)fid;
    fi_close(&domain->inner->fid);
    free(domain);
    return 0;
}

static struct fi_ops domain_fid_ops = { .size = sizeof domain_fid_ops,
                                        .close = domain_close,
                                        .bind = like_no_bind,
                                        .control = like_no_control,
                                        .ops_open = like_no_ops };
static struct fi_ops_domain domain_ops = { .size = sizeof domain_ops,
                                           .av_open = like_open_av,
                                           .cq_open = like_open_queue,
                                           .endpoint = like_open_endpoint };

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
    static _Atomic uint32_t opened;
    struct like_fabric *fabric = (struct like_fabric *)(void *)fid;
    struct like_domain *domain = calloc(1, sizeof *domain);
    (void)info;
    if (domain == NULL)
        return -FI_ENOMEM;
    int error = fi_domain(fabric->inner, fabric->info, &domain->inner, NULL);
    if (error != 0) {
        free(domain);
        return error;
    }
    domain->fabric = fabric;
    domain->random =
        (uint32_t)like_setting("EFA_LIKE_SEED", 1) * 2654435761U + atomic_fetch_add(&opened, 1) * 40503U + 1;
    domain->fid.fid = (struct fid){ .fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops };
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &like_region_ops;
    *out = &domain->fid;
    return 0;
}

static int fabric_eq(struct fid_fabric *fid, struct fi_eq_attr *attributes, struct fid_eq **eq, void *context)
{
    return fi_eq_open(((struct like_fabric *)(void *)fid)->inner, attributes, eq, context);
}

static int fabric_close(struct fid *fid)
{
    struct like_fabric *fabric = (struct like_fabric *)(void *)fid;
    fi_close(&fabric->inner->fid);
    fi_freeinfo(fabric->info);
    free(fabric);
    return 0;
}

static struct fi_ops fabric_fid_ops = { .size = sizeof fabric_fid_ops,
                                        .close = fabric_close,
                                        .bind = like_no_bind,
                                        .control = like_no_control,
                                        .ops_open = like_no_ops };
static struct fi_ops_fabric fabric_ops = { .size = sizeof fabric_ops,
                                           .domain = fabric_domain,
                                           .eq_open = fabric_eq };

/* FI_MR_BASIC by value, since libfabric 2 warns of its name: asked for by its three parts, the providers
 * within would take offsets, not virtual addresses. */
enum { MR_BASIC = 1 << 0 };

static int ask_inner(uint32_t version, struct fi_info **info)
{
    const char *address = getenv("EFA_LIKE_ADDRESS"), *name = getenv("EFA_LIKE_INNER");
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL)
        return -FI_ENOMEM;
    bool old = FI_VERSION_LT(fi_version(), FI_VERSION(1, 18));
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = MR_BASIC;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->fabric_attr->prov_name = strdup(name != NULL ? name : old ? "net;^ofi_rxm" : "tcp;^ofi_rxm");
    int error = fi_getinfo(version, address != NULL ? address : "127.0.0.1", NULL, FI_SOURCE, hints, info);
    fi_freeinfo(hints);
    return error;
}

static int open_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **out, void *context)
{
    struct like_fabric *fabric = calloc(1, sizeof *fabric);
    (void)attributes;
    if (fabric == NULL)
        return -FI_ENOMEM;
    int error = ask_inner(FI_VERSION(1, 17), &fabric->info);
    if (error == 0)
        error = fi_fabric(fabric->info->fabric_attr, &fabric->inner, NULL);
    if (error != 0) {
        fi_freeinfo(fabric->info);
        free(fabric);
        return error;
    }
    fabric->fid.fid = (struct fid){ .fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops };
    fabric->fid.ops = &fabric_ops;
    *out = &fabric->fid;
    return 0;
}

/* ------------------------------------------------------------------ the offer */

static bool can_serve(const struct fi_info *hints)
{
    bool writes = like_setting("EFA_LIKE_NO_RMA", 0) == 0,
         takes = like_setting("EFA_LIKE_RX_CQ_DATA", 0) != 0;
    uint64_t caps = writes ? KINDS : KINDS & ~(uint64_t)(FI_RMA | FI_WRITE | FI_READ);
    const struct fi_domain_attr *domain = hints->domain_attr;
    return (hints->caps & ~caps) == 0 && hints->ep_attr->type == FI_EP_RDM &&
           (hints->mode & FI_CONTEXT2) != 0 && (!takes || (hints->mode & FI_RX_CQ_DATA) != 0) &&
           (domain->mr_mode & REGISTRATION) == REGISTRATION && domain->cq_data_size <= 4 &&
           domain->data_progress != FI_PROGRESS_AUTO && hints->tx_attr->msg_order == 0 &&
           hints->rx_attr->msg_order == 0 && hints->tx_attr->inject_size <= 32 &&
           hints->tx_attr->iov_limit <= 2;
}

static struct fi_info *make_offer(const struct fi_info *hints)
{
    bool takes = like_setting("EFA_LIKE_RX_CQ_DATA", 0) != 0 && (hints->caps & FI_RMA) != 0;
    struct fi_info *offer = fi_allocinfo();
    if (offer == NULL)
        return NULL;
    offer->caps = hints->caps | FI_LOCAL_COMM | FI_REMOTE_COMM;
    offer->mode = FI_CONTEXT2 | (takes ? FI_RX_CQ_DATA : 0);
    offer->addr_format = FI_ADDR_EFA;
    *offer->ep_attr = (struct fi_ep_attr){ .type = FI_EP_RDM,
                                           .protocol = FI_PROTO_EFA,
                                           .protocol_version = 1,
                                           .max_msg_size = hints->caps & FI_RMA ? LIKE_WRITE_MOST : LIKE_MTU,
                                           .tx_ctx_cnt = 1,
                                           .rx_ctx_cnt = 1 };
    *offer->tx_attr = (struct fi_tx_attr){ .caps = offer->caps,
                                           .mode = offer->mode,
                                           .size = LIKE_TX_DEPTH,
                                           .inject_size = 32,
                                           .iov_limit = 2,
                                           .rma_iov_limit = 1 };
    *offer->rx_attr = (struct fi_rx_attr){
        .caps = offer->caps, .mode = offer->mode, .size = LIKE_RX_DEPTH, .iov_limit = 2
    };
    *offer->domain_attr = (struct fi_domain_attr){ .name = strdup("rdmap0s6-rdm"),
                                                   .threading = FI_THREAD_DOMAIN,
                                                   .control_progress = FI_PROGRESS_MANUAL,
                                                   .data_progress = FI_PROGRESS_MANUAL,
                                                   .resource_mgmt = FI_RM_ENABLED,
                                                   .av_type = FI_AV_TABLE,
                                                   .mr_mode = REGISTRATION,
                                                   .mr_key_size = 4,
                                                   .cq_data_size = 4,
                                                   .cq_cnt = 64,
                                                   .ep_cnt = 64,
                                                   .tx_ctx_cnt = 64,
                                                   .rx_ctx_cnt = 64,
                                                   .max_ep_tx_ctx = 1,
                                                   .max_ep_rx_ctx = 1,
                                                   .mr_iov_limit = 1,
                                                   .mr_cnt = 1024,
                                                   .caps = FI_LOCAL_COMM | FI_REMOTE_COMM };
    offer->fabric_attr->name = strdup("efa-direct");
    return offer;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *inner = NULL;
    (void)node, (void)service, (void)flags;
    if (hints == NULL || hints->ep_attr == NULL || hints->domain_attr == NULL || hints->tx_attr == NULL ||
        hints->rx_attr == NULL || !can_serve(hints) || ask_inner(version, &inner) != 0)
        return -FI_ENODATA;
    fi_freeinfo(inner);
    *info = make_offer(hints);
    return *info != NULL ? 0 : -FI_ENOMEM;
}

static void cleanup(void)
{
}

/* The highest version of a name wins. */
static struct fi_provider provider = { .version = FI_VERSION(999, 0),
                                       .name = "efa",
                                       .getinfo = getinfo,
                                       .fabric = open_fabric,
                                       .cleanup = cleanup };

struct fi_provider *fi_prov_ini(void) __attribute__((visibility("default")));
struct fi_provider *fi_prov_ini(void)
{
    provider.fi_version = fi_version();
    return &provider;
}
