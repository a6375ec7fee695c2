/* A libfabric provider for tests: registers as "efa" in the shape of efa-direct, lies over an ordinary
 * provider through the public API, and holds its caller to what EFA promises. What EFA does not do is a
 * breach of the contract, which is printed and aborts the process; what EFA may do happens all the time.
 *
 *   - sends and writes leave late and in any order; completions come late and in any order
 *   - a message takes any of the posted receives; one that finds none is a breach (receiver not ready)
 *   - posts are refused with -FI_EAGAIN, now and then and beyond the depth
 *   - a completion queue that runs over, a NULL context, a buffer outside its registration, a message above
 *     the MTU, data above 32 bits, two threads in a domain, an endpoint without an event queue: breaches
 *   - no order, tags, injection, multi-receive, wait objects
 *
 * Variables, read when something is opened, so that a test may change them:
 *
 *   EFA_LIKE_SEED=n         another random order; printed at a breach
 *   EFA_LIKE_INNER=name     the provider beneath (net before libfabric 1.18, tcp since)
 *   EFA_LIKE_ADDRESS=a      its local address (127.0.0.1)
 *   EFA_LIKE_NO_RMA=1       a device without remote writes
 *   EFA_LIKE_RX_CQ_DATA=1   a device where a peer's write takes a posted receive
 *   EFA_LIKE_AGAIN=n        one post in n is refused with -FI_EAGAIN (4; 0: none)
 *   EFA_LIKE_FAIL=n         every n-th operation of an endpoint fails
 *   EFA_LIKE_CORRUPT=n      of every n-th message that comes, a bit of the first 96 bytes is turned */
#ifndef PLAIT_TESTS_EFA_LIKE_H
#define PLAIT_TESTS_EFA_LIKE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LIKE_NAME_BYTES = 32, /* of an endpoint's address, on every EFA */
    LIKE_MTU = 8928,
    LIKE_TX_DEPTH = 128, /* operations on their way */
    LIKE_RX_DEPTH = 256, /* receives, where none is asked for */
    LIKE_RX_MOST = 1024, /* ...and at most */
    LIKE_LANDING = 64,   /* the endpoint's own receives */
    LIKE_WRITE_MOST = 1 << 30
};

struct like_fabric {
    struct fid_fabric fid;
    struct fid_fabric *inner;
    struct fi_info *info; /* of the provider beneath */
};

struct like_domain {
    struct fid_domain fid;
    struct fid_domain *inner;
    struct like_fabric *fabric;
    _Atomic int inside; /* threads */
    uint32_t random;
};

struct like_region {
    struct fid_mr fid;
    struct fid_mr *inner;
    uintptr_t base;
    size_t size;
    uint64_t access;
};

struct like_av {
    struct fid_av fid;
    struct fid_av *inner;
};

/* What completed and was not read yet, in no order. */
struct like_queue {
    struct fid_cq fid;
    struct fid_cq *inner;
    struct like_domain *domain;
    struct like_endpoint *endpoint;
    struct fi_cq_err_entry *entries;
    size_t size, used;
    struct fi_cq_err_entry failed; /* what fi_cq_readerr() is to tell */
    bool has_failed;
};

enum like_kind { LIKE_SEND, LIKE_WRITE, LIKE_RECEIVE, LIKE_LANDED };

struct like_op {
    struct fi_context2 context; /* first: the provider beneath gives it back */
    enum like_kind kind;
    void *user;
    void *bytes;
    size_t size;
    void *descriptor; /* of the provider beneath */
    fi_addr_t peer;
    uint64_t data, address, key;
};

struct like_endpoint {
    struct fid_ep fid;
    struct fid_ep *inner;
    struct like_domain *domain;
    struct like_queue *queue;
    bool enabled, has_eq, writes_take_receives;
    size_t rx_depth;
    unsigned under_way; /* sends and writes that have not completed */
    uint64_t operations, messages;
    struct like_op *late[LIKE_TX_DEPTH]; /* of them: not handed on yet */
    size_t late_count;
    struct like_op *receives[LIKE_RX_MOST]; /* the caller's */
    size_t receive_count;
    unsigned char *landing_bytes;
    struct fid_mr *landing_region;
    struct like_op landings[LIKE_LANDING];
};

/* A number from the environment. */
long like_setting(const char *name, long otherwise);
/* Prints the breach and aborts. */
_Noreturn void like_breach(const char *what);
/* Below `limit`. */
uint32_t like_random(struct like_domain *domain, uint32_t limit);
/* Around every call on a domain's things. */
void like_enter(struct like_domain *domain);
void like_leave(struct like_domain *domain);

/* Objects, for the domain's and the fabric's tables. */
int like_open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **endpoint,
                       void *context);
int like_open_queue(struct fid_domain *domain, struct fi_cq_attr *attributes, struct fid_cq **queue,
                    void *context);
int like_open_av(struct fid_domain *domain, struct fi_av_attr *attributes, struct fid_av **av, void *context);
extern struct fi_ops_mr like_region_ops;

/* Checks a buffer against its registration; what the provider beneath calls that. */
void *like_descriptor(const void *bytes, size_t size, void *descriptor, uint64_t access);

/* Hands on what was posted, some of it. */
void like_launch(struct like_endpoint *endpoint);
/* A message or a write of a peer's came. */
void like_landed(struct like_endpoint *endpoint, struct like_op *landing, size_t size);
void like_written(struct like_endpoint *endpoint, uint64_t data, size_t size);
/* Something is done, with `error` 0 or a failure. */
void like_complete(struct like_queue *queue, void *user, uint64_t flags, size_t size, uint64_t data,
                   int error);

/* What objects have no use for. */
int like_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int like_no_control(struct fid *fid, int command, void *argument);
int like_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

#endif
