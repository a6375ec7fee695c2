/* One call under way, as torch sees it: plait.h works behind a c10d::Work. */
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "failure.h"
#include "staging.h"

namespace plait_torch {

/* What the works of a group share; outlives the group where a program holds works. */
struct Home {
    Place place;
    std::atomic<plait_comm *> comm{nullptr}; /* NULL after shutdown() */

    /* For torch's completion hook: works that began after it was registered are counted until it was called. */
    std::atomic<bool> hooked{false};
    std::function<void(std::shared_ptr<c10d::WorkInfo>)> hook;
    std::mutex mutex;
    std::condition_variable all_done;
    size_t pending = 0;
};

/* What a listener of record_param_comms is told beside the outputs. */
struct Record {
    Tensors inputs;
    std::vector<int64_t> input_splits, output_splits; /* rows a rank, of all_to_all_single */
};

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
    WorkPlait(int rank, c10d::OpType type, const char *title, std::shared_ptr<Home> home, uint64_t number,
              const Tensors &inputs);
    ~WorkPlait() override;

    /* Building: buffers, what the future gives, the parts. */
    Staging staging;
    Tensors outputs;
    /* Makes outputs of what has arrived; called after success, where computing takes nobody's time. May throw. */
    std::function<void()> finish_late;
    std::unique_ptr<Record> record; /* NULL if nobody listens */

    /* Where plait.h puts the next part's work. Follow with check(): check(plait_send(..., slot())). */
    plait_work **slot();
    /* Throws if the part just started was refused; then it is no part. */
    void check(plait_status status);
    /* For a receive: the part just started must bring exactly `count` elements. */
    void expect(size_t count);
    /* Throws if the parts were refused together: none of them has been started after all. */
    void check_together(plait_status status);

    /* Started: exactly one of these is called, once. */
    void watch();
    void see_through();
    bool started() const
    {
        return started_;
    }

    /* 0 is no limit. One that passes throws "Timed out ..." and the work goes on. */
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    /* Aborts the whole communicator: there is no other way to stop one call on all ranks. */
    void abort() override;
    std::vector<at::Tensor> result() override;
    int sourceRank() const override;
    uint64_t getSequencenumber() const override;
    /* Milliseconds from the call to its end. */
    float getDuration() const override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;

    /* On a completion thread: what is left to do when all parts have ended. */
    void complete();

  private:
    using Future = c10::intrusive_ptr<c10::ivalue::Future>;
    struct Part {
        plait_work *handle = nullptr;
        size_t expected = SIZE_MAX;
    };

    /* A future that somebody asked for, until it is taken to be completed. */
    struct Promise {
        Future future;
        bool taken = false;
        Future take()
        {
            return std::exchange(taken, future != nullptr) ? nullptr : future;
        }
    };

    static void part_done(void *context, plait_work *handle, plait_status status);
    void drop_parts();
    void begin();
    void part_ended(const Part &part, plait_status status);
    void all_parts_ended(c10::intrusive_ptr<WorkPlait> self);
    void settle() noexcept;
    void keep_failure();
    void call_hook();
    Future future_of(Promise &promise, const c10::TypePtr &type);
    void complete_futures();
    c10d::WorkResult result_code() const;

    const char *const title_;
    const std::shared_ptr<Home> home_;
    const uint64_t number_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point ended_;
    bool started_ = false;
    bool counted_ = false; /* among home_->pending */
    std::vector<Part> parts_;
    std::atomic<size_t> left_{0};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    /* Under mutex_. */
    Promise outputs_promised_, code_promised_;
    std::unique_ptr<at::ThreadLocalState> asker_; /* grad mode and the like, for continuations; NULL: nothing to keep */
};

} // namespace plait_torch
