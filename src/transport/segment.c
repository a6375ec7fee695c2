#include "transport/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/mailbox.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static const uint64_t magic = UINT64_C(0x3167657374696c70); /* "plitseg1" */
static const size_t lane_grain = 64 << 10;
static const size_t default_lane_size = 4 << 20;
static const size_t heap_grain = 2 << 20; /* a huge page */

_Static_assert(sizeof(struct seat) <= SEGMENT_PAGE, "a seat is one page");

static size_t round_up(size_t size, size_t grain)
{
    return (size + grain - 1) / grain * grain;
}

/* Addresses are all that a heap costs until something is allocated there; but a process maps one for
 * each rank of its host, and has 2^47 bytes of them, less where it is limited. */
static size_t heap_room(size_t peers, size_t before)
{
#if defined(__SANITIZE_THREAD__)
    const uint64_t most = UINT64_C(1) << 30; /* its shadow leaves little room for addresses */
#else
    const uint64_t most = UINT64_C(64) << 30;
#endif
    const uint64_t most_together = UINT64_C(1) << 40;
    uint64_t room = most_together / peers;
    struct rlimit limit;
    if (room > most)
        room = most;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        room > limit.rlim_cur / 2 / peers)
        room = limit.rlim_cur / 2 / peers;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        uint64_t left = limit.rlim_cur > before ? limit.rlim_cur - before : 0;
        room = room < left ? room : left;
    }
    if (room > SIZE_MAX / 4)
        room = 0;
    return (size_t)room / heap_grain * heap_grain;
}

struct segment_layout segment_lay_out(int peers, size_t lane_size)
{
    struct segment_layout layout = { .peers = peers, .lane_size = default_lane_size };
    if (lane_size > 0)
        layout.lane_size = round_up(lane_size, lane_grain);
    size_t words = ((size_t)peers + 63) / 64;
    layout.doorbells = SEGMENT_PAGE;
    layout.channels = layout.doorbells + round_up(words * sizeof(uint64_t), SEGMENT_PAGE);
    layout.lanes = layout.channels + (size_t)BOARD_CHANNELS * CHANNEL_SIZE;
    layout.mailboxes = layout.lanes + lane_offset(layout.lane_size, STAGING_LANES);
    layout.heap = round_up(layout.mailboxes + (size_t)peers * sizeof(struct mailbox), heap_grain);
    layout.heap_size = heap_room((size_t)peers, layout.heap);
    layout.size = layout.heap + layout.heap_size;
    return layout;
}

static void write_header(const struct segment *segment, const struct segment_owner *owner)
{
    struct segment_header *header = segment_header(segment);
    header->magic = magic;
    header->version = SEGMENT_VERSION;
    header->rank = owner->rank;
    header->pid = owner->pid;
    header->generation = owner->generation;
    header->lane_size = segment->layout.lane_size;
    header->peers = (uint32_t)segment->layout.peers;
    atomic_store_explicit(&header->state, SEGMENT_HERE, memory_order_release);
}

/* A core dump would touch, and so fill, the whole of it. */
static void keep_out_of_dumps(const struct segment *segment)
{
    if (segment->layout.heap_size > 0)
        madvise(segment_heap(segment), segment->layout.heap_size, MADV_DONTDUMP);
}

plait_status segment_make_private(struct segment *segment, const struct segment_layout *layout,
                                  const struct segment_owner *owner)
{
    *segment = (struct segment){ .layout = *layout, .rank = owner->rank, .fd = -1 };
    void *base =
        mmap(NULL, layout->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return failure_errno(status_of_errno(errno), errno,
                             "rank %d can't map %zu bytes for the segment it shares with its peers",
                             owner->rank, layout->size);
    segment->base = base;
    /* Shared, so that a caller's own buffer can be a second view of it. */
    if (layout->heap_size > 0 &&
        mmap(segment->base + layout->heap, layout->heap_size, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        segment->layout.heap_size = 0;
    keep_out_of_dumps(segment);
    write_header(segment, owner);
    return PLAIT_OK;
}

static int make_memfd(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("plait", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* Linux before 6.3 */
        fd = memfd_create("plait", flags);
    return fd;
}

/* A file size limit (ulimit -f) applies to memfds and would kill us with SIGXFSZ. */
static bool exceeds_file_limit(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

plait_status segment_make_shared(struct segment *segment, const struct segment_layout *layout,
                                 const struct segment_owner *owner)
{
    *segment = (struct segment){ .layout = *layout, .rank = owner->rank, .fd = -1 };
    plait_status status;
    if (exceeds_file_limit(layout->size))
        return failure(
            PLAIT_OUT_OF_RESOURCES,
            "rank %d needs a shared memory segment of %zu bytes (sparse) and the limit of file sizes "
            "(ulimit -f) is below that; raise it",
            owner->rank, layout->size);
    int fd = make_memfd();
    if (fd < 0)
        return failure_errno(status_of_errno(errno), errno,
                             "rank %d can't make its shared memory segment (a memfd; ulimit -n is %ld)",
                             owner->rank, sysconf(_SC_OPEN_MAX));
    /* Sealed, so that no owner can shrink it under its peers' feet. */
    if (ftruncate(fd, (off_t)layout->size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        goto refused;
    void *base = mmap(NULL, layout->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        goto refused;
    segment->base = base;
    segment->fd = fd;
    keep_out_of_dumps(segment);

    status = segment_reserve(segment, 0, layout->channels, "header");
    if (status == PLAIT_OK)
        write_header(segment, owner);
    if (status == PLAIT_OK) /* the first lane: all worlds use it */
        status = segment_reserve(segment, layout->lanes, layout->lane_size, "staging");
    if (status != PLAIT_OK)
        segment_free(segment);
    return status;

refused:
    status = failure_errno(status_of_errno(errno), errno,
                           "rank %d can't size, seal and map its shared memory segment of %zu bytes",
                           owner->rank, layout->size);
    close(fd);
    return status;
}

/* What a peer handed over has to be a sealed memfd of the right size before it may be mapped and read. */
static plait_status check_fd(const struct segment_layout *layout, int rank, int fd, size_t *size)
{
    struct stat facts;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return failure(PLAIT_START_FAILED, "rank %d handed over something that is not a memfd", rank);
    if ((seals & F_SEAL_SHRINK) == 0)
        return failure(PLAIT_START_FAILED, "rank %d handed over a memfd that it could shrink", rank);
    if (facts.st_size < 0 || (size_t)facts.st_size < layout->heap || facts.st_size % SEGMENT_PAGE != 0)
        return failure(PLAIT_START_FAILED,
                       "the segment of rank %d has %lld bytes, this rank's has %zu and its heap: "
                       "PLAIT_STAGING_SIZE (%zu a lane "
                       "here) and the version have to be the same on all ranks",
                       rank, (long long)facts.st_size, layout->heap, layout->lane_size);
    *size = (size_t)facts.st_size;
    return PLAIT_OK;
}

static plait_status check_header(const struct segment *segment, const struct segment_owner *owner)
{
    const struct segment_header *header = segment_header(segment);
    if (header->magic != magic || header->version != SEGMENT_VERSION)
        return failure(
            PLAIT_START_FAILED,
            "the segment of rank %d is not of this version (magic %016llx, version %u; wanted %016llx, %d)",
            owner->rank, (unsigned long long)header->magic, header->version, (unsigned long long)magic,
            SEGMENT_VERSION);
    if (header->rank != owner->rank || header->generation != owner->generation ||
        (owner->pid >= 0 && header->pid != owner->pid))
        return failure(PLAIT_START_FAILED,
                       "a segment said to be of rank %d (pid %lld) is of rank %d (pid %lld) of %s world",
                       owner->rank, (long long)owner->pid, header->rank, (long long)header->pid,
                       header->generation == owner->generation ? "this" : "another");
    if (header->lane_size != segment->layout.lane_size || header->peers != (uint32_t)segment->layout.peers)
        return failure(
            PLAIT_START_FAILED,
            "rank %d has %u peers on this host and staging lanes of %llu bytes, this rank has %d and %zu: "
            "PLAIT_STAGING_SIZE has to be the same on all ranks",
            owner->rank, header->peers, (unsigned long long)header->lane_size, segment->layout.peers,
            segment->layout.lane_size);
    return PLAIT_OK;
}

plait_status segment_map(struct segment *segment, const struct segment_layout *layout,
                         const struct segment_owner *owner, int fd)
{
    *segment = (struct segment){ .layout = *layout, .rank = owner->rank, .fd = -1 };
    size_t size;
    plait_status status = check_fd(layout, owner->rank, fd, &size);
    if (status != PLAIT_OK)
        return status;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED && size > layout->heap) { /* all else works without the peer's heap */
        size = layout->heap;
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (base == MAP_FAILED)
        return failure_errno(status_of_errno(errno), errno, "can't map the segment of rank %d, %zu bytes",
                             owner->rank, size);
    segment->base = base;
    segment->layout.heap_size = size - layout->heap;
    segment->layout.size = size;
    keep_out_of_dumps(segment);
    status = check_header(segment, owner);
    if (status != PLAIT_OK)
        segment_free(segment);
    return status;
}

/* Gives a part of the memfd its memory; 0, or an errno and how far it came. */
static int reserve(const struct segment *segment, size_t offset, size_t size, size_t *done)
{
    /* In pieces: a signal makes the system undo the piece it is at, so a large one might never end. */
    const size_t piece = 1 << 20;
    for (*done = 0; *done < size; *done += piece) {
        size_t part = size - *done < piece ? size - *done : piece;
        int error;
        do {
            error = posix_fallocate(segment->fd, (off_t)(offset + *done), (off_t)part);
        } while (error == EINTR);
        if (error != 0)
            return error;
    }
    return 0;
}

plait_status segment_reserve(const struct segment *segment, size_t offset, size_t size, const char *what)
{
    size_t done;
    int error = segment->fd < 0 ? 0 : reserve(segment, offset, size, &done);
    if (error == 0)
        return PLAIT_OK;
    return failure_errno(error == EFBIG ? PLAIT_OUT_OF_RESOURCES : PLAIT_OUT_OF_MEMORY, error,
                         "rank %d got %zu of %zu bytes of shared memory for its %s; give the host or "
                         "container more memory, or lower PLAIT_STAGING_SIZE",
                         segment->rank, done, size, what);
}

void segment_give(const struct segment *segment, size_t offset, size_t size)
{
    madvise(segment->base + offset, size, segment->fd < 0 ? MADV_DONTNEED : MADV_REMOVE);
}

plait_status segment_heap_take(const struct segment *segment, size_t offset, size_t size)
{
    unsigned char *memory = segment_heap(segment) + offset;
    size_t done = 0;
    int error = segment->fd < 0 ? 0 : reserve(segment, segment->layout.heap + offset, size, &done);
    if (error == 0) {
        if (size >= heap_grain)
            madvise(memory, size, MADV_HUGEPAGE); /* where the system has them for shared memory */
        if (madvise(memory, size, MADV_POPULATE_WRITE) != 0 &&
            errno != EINVAL) /* EINVAL: before Linux 5.14 */
            error = errno;
    }
    if (error == 0)
        return PLAIT_OK;
    segment_heap_give(segment, offset, size);
    return failure_errno(PLAIT_OUT_OF_MEMORY, error,
                         "rank %d got %zu of %zu bytes of memory that its peers can read; give the host or "
                         "container more memory, or free some",
                         segment->rank, done, size);
}

void segment_heap_give(const struct segment *segment, size_t offset, size_t size)
{
    madvise(segment_heap(segment) + offset, size, MADV_REMOVE);
}

void segment_free(struct segment *segment)
{
    if (segment->base == NULL)
        return;
    munmap(segment->base, segment->layout.size);
    if (segment->fd >= 0)
        close(segment->fd);
    segment->base = NULL;
    segment->fd = -1;
}
