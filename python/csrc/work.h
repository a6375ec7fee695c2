/* One operation under way, as torch sees it: plait.h works behind a c10d::Work. */
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "convert.h"

namespace plait_torch {

/* Where an operation is, for messages: "rank 0 of 2 of group 0". Made once a group. */
using Place = std::shared_ptr<const std::string>;

/*
 * Completes in one of two ways. Watched: plait.h calls back when each part is
 * done, on any of its threads, and nobody needs to wait. Waited for: the
 * calling thread sees the parts through before the caller gets the work.
 *
 * Python may run wherever a future's continuation runs or a tensor's last
 * reference goes, and a continuation may wait for further works. Neither may
 * happen on a thread of plait.h's, so both are left to completion threads.
 */
class WorkPlait : public c10d::Work {
  public:
    /* `title` is "plait:all_reduce"; `number` counts the group's calls. */
    WorkPlait(int rank, c10d::OpType type, const char *title, Place place, uint64_t number,
              const std::vector<at::Tensor> &tensors);
    ~WorkPlait() override;

    /* Building: buffers, what the future gives, the parts. */
    Staging staging;
    std::vector<at::Tensor> outputs;
    /* Where plait.h puts the next part's work. Follow with check(): check(plait_send(..., slot())). */
    plait_work **slot();
    /* Throws if the part just started was refused; then it is no part. */
    void check(plait_status status);
    /* For a receive: the part just started must bring exactly `count` elements. */
    void expect(size_t count);

    /* Started: exactly one of these is called, once. */
    void watch();
    void see_through();

    /* 0 is no limit. One that passes throws "Timed out ..." and the work goes on. */
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    std::vector<at::Tensor> result() override;
    int sourceRank() const override;
    uint64_t getSequencenumber() const override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

    /* On a completion thread: completes the future. */
    void complete_future();

  private:
    struct Part {
        plait_work *handle = nullptr;
        size_t expected = SIZE_MAX;
    };

    static void part_done(void *context, plait_work *handle, plait_status status);
    void part_ended(const Part &part, plait_status status);
    void settle() noexcept;
    void fail(plait_status status, const std::string &message);

    const char *const title_;
    const Place place_;
    const uint64_t number_;
    std::vector<Part> parts_;
    std::atomic<size_t> left_{0};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    c10::intrusive_ptr<c10::ivalue::Future> future_; /* made when asked for; under mutex_ */
    std::unique_ptr<at::ThreadLocalState> asker_;    /* grad mode and the like, for continuations */
};

/*
 * What a failed call or work has to say: plait.h's sentence, then the fault's
 * fields. `work` may be NULL: the call failed before there was one.
 */
std::string failure_message(plait_status status, const plait_work *work, const char *title, const Place &place);

/* Throws it: ValueError for arguments, torch.distributed.DistBackendError else. */
[[noreturn]] void throw_failure(plait_status status, const std::string &message);

/* Stops the completion threads, within two seconds. For the end of the process; needs the GIL released. */
void stop_completion();

} // namespace plait_torch
