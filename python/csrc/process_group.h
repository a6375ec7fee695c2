/* The process group `plait`: c10d's calls, put to plait.h. It converts arguments and decides nothing. */
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "reduction.h"
#include "work.h"

namespace plait_torch {

using std::chrono::milliseconds;

/* A world, shared by the process groups on it; the last one to go destroys it. */
struct World;

class ProcessGroupPlait : public c10d::Backend {
  public:
    struct OptionsPlait : c10d::Backend::Options {
        explicit OptionsPlait(milliseconds timeout_ = kBackendDefaultTimeout) : Options("plait", timeout_)
        {
        }
    };

    using WorkPtr = c10::intrusive_ptr<c10d::Work>;

    /* A group with a world of its own, whose ranks find each other through `store`. Returns once all are there. */
    static c10::intrusive_ptr<ProcessGroupPlait> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                                        int size, milliseconds timeout, const std::string &name);

    /*
     * A group of some ranks of this one, called by those only, each with the
     * same ranks and name. Rank i of the new group is ranks[i] here. Opens no connection.
     */
    c10::intrusive_ptr<ProcessGroupPlait> group(const std::vector<int> &ranks, milliseconds timeout,
                                                const std::string &name);

    ~ProcessGroupPlait() override;

    /* Leaves every group that is still there; for the end of the process. Needs the GIL released. */
    static void shutdown_all();

    const std::string getBackendName() const override
    {
        return "plait";
    }
    c10::intrusive_ptr<Options> getBackendOptions() override
    {
        return options_;
    }
    /* These are without `override`: virtual in torch up to 2.14 only. capabilities() says the same from 2.15 on,
     * where it is to be overridden once there is a torch to compile it with. */
    bool supportsSplitting() const
    {
        return true;
    }
    bool supportsCoalescing() const
    {
        return true;
    }

    /* reductions.cpp */
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts) override;
    /* sparse.cpp */
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;

    /* movements.cpp */
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts) override;
    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override;
    WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &opts) override;
    /* Virtual in later torch, by one of the two names: all inputs in one tensor, which only the root needs. */
    WorkPtr gather_single(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &opts);
    WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &opts)
    {
        return gather_single(output, input, opts);
    }

    /* alltoall.cpp */
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override;

    /* messages.cpp */
    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;

    /* barriers.cpp */
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    /* Rank 0 hears of every rank within the timeout, or all ranks that come throw the numbers of who is missing
     * (of all with `wait_all_ranks`, else of the first), and the group can be used on. */
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;

    /* coalescing.cpp: what this thread calls from one to the other is started by the latter, all at once. */
    void startCoalescing() override;
    WorkPtr endCoalescing() override;

    /* groups.cpp */
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &opts) override;
    c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                      const c10::intrusive_ptr<Options> &opts, const int &rank,
                                      const int &size) override;

    /* memory.cpp: memory that the ranks of a host read in place. It keeps the world alive. */
    std::shared_ptr<c10::Allocator> getMemAllocator() override;
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    bool supportsTensorAlloc(c10::DeviceIndex device) override;

    void setTimeout(milliseconds timeout) override;
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;
    c10d::ErrorType getError() override;
    void registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)> &&hook) override;
    void waitForPendingWorks() override;
    void enableCollectivesTiming() override;
#ifdef C10D_BACKEND_HAS_HOOKS
    void registerAbortHook(int64_t id, c10d::AbortHook hook) override;
    void unregisterAbortHook(int64_t id) override;
#endif
    void abort() override;
    void shutdown() override;

    /* How the latest collective was carried out: "direct-one-shot". */
    std::string last_plan() const;

    ProcessGroupPlait(std::shared_ptr<World> world, plait_comm *comm, bool owns_comm, milliseconds timeout,
                      const std::string &name);

  private:
    using WorkRef = c10::intrusive_ptr<WorkPlait>;
    /* Makes the calls of plait.h. May run after the function that made it has returned: holds copies. */
    using Start = std::function<void(plait_comm *, WorkPlait &)>;
    enum class Kind { collective, message };
    struct Call {
        milliseconds timeout; /* of the call; kUnsetTimeout: the group's */
        Start start;
    };
    struct Batch {
        WorkRef work;
        std::vector<Call> calls;
    };

    /* The work of a new call, or that of the batch which this thread has open. */
    WorkRef make_work(c10d::OpType type, const char *title, const Tensors &inputs, Kind kind = Kind::collective);
    /* Starts the call, under the lock that gives the communicator to one thread at a time; or leaves it to a batch. */
    WorkPtr run(const WorkRef &work, milliseconds timeout, bool async, Start start);
    void start(WorkPlait &work, at::ArrayRef<Call> calls);
    void start_alone(plait_comm *comm, WorkPlait &work, const Call &call);
    void start_recorded(WorkPlait &work, at::ArrayRef<Call> calls);
    void begin_batch(c10d::OpType type, const char *title, const Tensors &inputs);
    Batch *open_batch();
    Batch take_batch();

    WorkPtr send_tagged(const Tensors &tensors, int peer, int tag);
    WorkPtr recv_tagged(const Tensors &tensors, int peer, int tag, milliseconds timeout);
    std::vector<int> missing_ranks(std::chrono::steady_clock::time_point deadline);

    void check_root(int64_t root, const char *call) const;
    void check_peer(int peer, const char *call) const;
    void check_blocks(const at::Tensor &whole, const at::Tensor &block, const char *call) const;
    void check_list(const Tensors &list, const char *call) const;

    std::mutex call_mutex_;
    std::shared_ptr<World> world_;
    const bool owns_comm_;
    const c10::intrusive_ptr<OptionsPlait> options_;
    const std::shared_ptr<Home> home_;
    std::atomic<uint64_t> sequence_{0};
    std::mutex batch_mutex_;
    std::atomic<size_t> batch_count_{0};
    std::map<std::thread::id, Batch> batches_; /* of the threads that are between start and end */
#ifdef C10D_BACKEND_HAS_HOOKS
    std::mutex hook_mutex_;
    std::map<int64_t, c10d::AbortHook> abort_hooks_;
#endif
};

/* Has what is called until its end, or until it goes, started together: a group of plait.h's. */
class StartedTogether {
  public:
    StartedTogether();
    ~StartedTogether();
    /* PLAIT_OK, or why nothing was started. */
    plait_status end();

  private:
    bool open_ = true;
};

} // namespace plait_torch
