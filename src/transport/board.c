#include "transport/board.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "transport/segment.h"
#include "transport/transport.h"

void bell_ring(struct bell *bell)
{
    /* The exchange lets one of many ringers pay for the system call. */
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) == 0 ||
        atomic_exchange_explicit(&bell->sleeping, 0, memory_order_acq_rel) == 0)
        return;
    atomic_fetch_add_explicit(&bell->word, 1, memory_order_release);
    syscall(SYS_futex, &bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t bell_lie_down(struct bell *bell)
{
    uint32_t seen = atomic_load_explicit(&bell->word, memory_order_acquire);
    /* Sequentially consistent: the caller's look for work comes after it. */
    atomic_exchange(&bell->sleeping, 1);
    return seen;
}

void bell_sleep(struct bell *bell, uint32_t seen, int64_t nap_ns)
{
    if (nap_ns <= 0)
        return;
    if (nap_ns > BELL_NAP_NS)
        nap_ns = BELL_NAP_NS;
    struct timespec nap = { .tv_nsec = (long)nap_ns };
    syscall(SYS_futex, &bell->word, FUTEX_WAIT, seen, &nap, NULL, 0);
}

void bell_get_up(struct bell *bell)
{
    atomic_store_explicit(&bell->sleeping, 0, memory_order_relaxed);
}

struct board *board_make(int channel, const struct segment *const *segments, int count)
{
    size_t ranks = (size_t)count;
    struct board *board = malloc(sizeof *board + ranks * (5 * sizeof(void *) + sizeof(size_t)));
    if (board == NULL)
        return NULL;
    void **arrays = (void **)(board + 1);
    *board = (struct board){ .seats = (struct seat **)arrays,
                             .staging = (unsigned char **)(arrays + ranks),
                             .seat_staging = (unsigned char **)(arrays + 2 * ranks),
                             .bells = (struct bell **)(arrays + 3 * ranks),
                             .heaps = (unsigned char **)(arrays + 4 * ranks),
                             .heap_sizes = (size_t *)(arrays + 5 * ranks),
                             .lane_size = segments[0]->layout.lane_size };
    for (int i = 0; i < count; i++) {
        board->seats[i] = segment_seat(segments[i], channel);
        board->staging[i] = segments[i]->base + segments[i]->layout.lanes;
        board->seat_staging[i] = segment_seat_staging(segments[i], channel);
        board->bells[i] = &segment_header(segments[i])->bell;
        board->heaps[i] = segment_heap(segments[i]);
        board->heap_sizes[i] = segments[i]->layout.heap_size;
    }
    return board;
}

void board_free(struct board *board)
{
    free(board);
}
