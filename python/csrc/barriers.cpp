/* c10d's barriers, put to plait.h. */
#include <algorithm>

#include "gil.h"
#include "messages.h"
#include "process_group.h"

namespace plait_torch {

using c10d::OpType;
using std::chrono::steady_clock;

ProcessGroupPlait::WorkPtr ProcessGroupPlait::barrier(const c10d::BarrierOptions &opts)
{
    auto work = make_work(OpType::BARRIER, "plait:barrier", {});
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_barrier(comm, started.slot()));
    });
}

/*
 * A monitored barrier is made of messages, which have no deadline of their own: a barrier of plait.h that times out
 * ends the communicator, and here the ranks that came shall go on. Each rank tells rank 0 that it has come and hears
 * who was missing; rank 0 also tells those that come later. Messages arrive in order, so an announcement that comes
 * too late for its barrier is taken by the receive that still waits for it, and not by the next barrier's.
 */

/* Waits until `deadline`; false if that passes. Throws what the work throws. */
static bool done_by(c10d::Work &work, steady_clock::time_point deadline)
{
    auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    try {
        work.wait(std::max(left, milliseconds(1)));
    } catch (const Failure &failure) {
        if (failure.status != PLAIT_IN_PROGRESS)
            throw;
        return false;
    }
    return true;
}

/* Says what Gloo's barrier says to each rank, for programs that look for it, and names who is missing to all. */
[[noreturn]] static void throw_missing(const std::string &who, int rank, milliseconds timeout, const Place &place)
{
    std::string begin = rank == 0 ? c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms")
                                  : c10::str("Rank ", rank, " successfully reached monitoredBarrier, but received "
                                             "errors while waiting for send/recv from rank 0");
    throw_failure(PLAIT_TIMED_OUT, c10::str("plait:monitored_barrier: ", begin, ": ", who,
                                            " failed to pass monitoredBarrier in ", timeout.count(),
                                            " ms [Timed out on ", *place, "; the group goes on]"));
}

/* "Rank 3", "Ranks 1, 3". */
static std::string name_ranks(const std::vector<int> &ranks)
{
    std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
    for (size_t i = 0; i < ranks.size(); i++)
        text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    return text;
}

/* On rank 0: the ranks that have not come by the deadline, or are gone. */
std::vector<int> ProcessGroupPlait::missing_ranks(steady_clock::time_point deadline)
{
    std::vector<WorkPtr> heard;
    for (int rank = 1; rank < size_; rank++)
        heard.push_back(recv_tagged({at::empty({1}, at::kLong)}, rank, barrier_tag, milliseconds::max()));
    std::vector<int> missing;
    for (int rank = 1; rank < size_; rank++) {
        bool came = false;
        try {
            came = done_by(*heard[static_cast<size_t>(rank) - 1], deadline);
        } catch (const Failure &) {
            /* lost: missing all the more */
        }
        if (!came)
            missing.push_back(rank);
    }
    return missing;
}

void ProcessGroupPlait::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
    GilReleased released;
    milliseconds timeout = opts.timeout != c10d::kUnsetTimeout ? opts.timeout : options_->timeout;
    auto deadline = steady_clock::now() + timeout;
    /* A list of who is missing, padded to the number of ranks: messages are small and of one length. */
    at::Tensor list = at::full({size_}, -1, at::kLong);
    auto *numbers = list.mutable_data_ptr<int64_t>();
    if (rank_ != 0) {
        send_tagged({at::ones({1}, at::kLong)}, 0, barrier_tag);
        /* Rank 0 may have waited for others until its own deadline. */
        if (!done_by(*recv_tagged({list}, 0, barrier_tag, milliseconds::max()), deadline + timeout / 2))
            throw_missing("Rank 0", rank_, timeout, home_->place);
    } else {
        std::vector<int> missing = missing_ranks(deadline);
        if (!wait_all_ranks && missing.size() > 1)
            missing.erase(missing.begin() + 1, missing.end());
        std::copy(missing.begin(), missing.end(), numbers);
        for (int rank = 1; rank < size_; rank++)
            send_tagged({list.clone()}, rank, barrier_tag);
    }
    std::vector<int> missing(numbers, std::find(numbers, numbers + size_, -1));
    if (!missing.empty())
        throw_missing(name_ranks(missing), rank_, timeout, home_->place);
}

} // namespace plait_torch
