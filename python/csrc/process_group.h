/* The process group `plait`: c10d's calls, put to plait.h. It converts arguments and decides nothing. */
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

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

    using Tensors = std::vector<at::Tensor>;
    using Lists = std::vector<std::vector<at::Tensor>>;
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
    /* Without `override`: virtual in torch up to 2.14 only. */
    bool supportsSplitting() const
    {
        return true;
    }

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts) override;
    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override;
    WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &opts) override;
    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override;
    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks) override;

    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &opts) override;

    void setTimeout(milliseconds timeout) override;
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;
    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;

    /* How the latest collective was carried out: "direct-one-shot". */
    std::string last_plan() const;

    ProcessGroupPlait(std::shared_ptr<World> world, plait_comm *comm, bool owns_comm, milliseconds timeout,
                      const std::string &name);

  private:
    using WorkRef = c10::intrusive_ptr<WorkPlait>;
    enum class Kind { collective, message };

    WorkRef make_work(c10d::OpType type, const char *title, const Tensors &tensors, Kind kind = Kind::collective);
    /* Calls `start` with the communicator, under the lock that gives it to one thread at a time. */
    WorkPtr run(const WorkRef &work, milliseconds timeout, bool async, const std::function<void(plait_comm *)> &start);
    void exchange(WorkPlait &work, plait_comm *comm, const std::vector<Span> &sends, const std::vector<Span> &recvs);
    void check_root(int64_t root, const char *call) const;
    void check_blocks(const at::Tensor &whole, const at::Tensor &block, const char *call) const;
    void check_list(const Tensors &list, const at::Tensor &like, const char *call) const;

    std::mutex call_mutex_;
    std::shared_ptr<World> world_;
    std::atomic<plait_comm *> comm_; /* NULL after shutdown() */
    const bool owns_comm_;
    const c10::intrusive_ptr<OptionsPlait> options_;
    const Place place_;
    std::atomic<uint64_t> sequence_{0};
};

} // namespace plait_torch
