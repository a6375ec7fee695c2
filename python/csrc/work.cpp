#include <Python.h>

#include "work.h"

#include <algorithm>

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "completion.h"

namespace plait_torch {

WorkPlait::WorkPlait(int rank, c10d::OpType type, const char *title, std::shared_ptr<Home> home, uint64_t number,
                     const Tensors &inputs)
    : Work(rank, type, title, inputs), title_(title), home_(std::move(home)), number_(number)
{
}

WorkPlait::~WorkPlait()
{
    drop_parts();
}

/* ---------------------------------------------------------------- building */

plait_work **WorkPlait::slot()
{
    parts_.emplace_back();
    return &parts_.back().handle;
}

void WorkPlait::check(plait_status status)
{
    if (status == PLAIT_OK)
        return;
    parts_.pop_back();
    throw_failure(status, nullptr, title_, home_->place);
}

void WorkPlait::expect(size_t count)
{
    parts_.back().expected = count;
}

void WorkPlait::check_together(plait_status status)
{
    if (status == PLAIT_OK)
        return;
    drop_parts();
    throw_failure(status, nullptr, title_, home_->place);
}

void WorkPlait::drop_parts()
{
    for (const Part &part : parts_)
        plait_work_release(part.handle);
    parts_.clear();
}

/* ----------------------------------------------------------------- running */

void WorkPlait::begin()
{
    started_ = true;
    if (home_->hooked) {
        std::lock_guard<std::mutex> lock(home_->mutex);
        home_->pending++;
        counted_ = true;
    }
}

void WorkPlait::watch()
{
    if (!started_)
        begin();
    left_ = parts_.size() + 1; /* one for this function, so that parts can't settle it before all are watched */
    for (const Part &part : parts_) {
        c10::intrusive_ptr<WorkPlait> self = c10::intrusive_ptr<WorkPlait>::reclaim_copy(this);
        plait_status status = plait_work_on_done(part.handle, part_done, self.get());
        if (status == PLAIT_OK) {
            self.release(); /* the callback's now */
        } else {
            part_ended(part, status);
            left_--;
        }
    }
    if (--left_ == 0)
        all_parts_ended(c10::intrusive_ptr<WorkPlait>::reclaim_copy(this));
}

void WorkPlait::part_done(void *context, plait_work *handle, plait_status status)
{
    auto self = c10::intrusive_ptr<WorkPlait>::reclaim(static_cast<WorkPlait *>(context));
    for (const Part &part : self->parts_)
        if (part.handle == handle)
            self->part_ended(part, status);
    if (--self->left_ == 0)
        self->all_parts_ended(std::move(self)); /* else another part's callback, or watch()'s caller, holds the work */
}

void WorkPlait::all_parts_ended(c10::intrusive_ptr<WorkPlait> self)
{
    bool later = finish_late != nullptr || counted_;
    if (finish_late == nullptr) {
        settle();
        std::lock_guard<std::mutex> lock(mutex_);
        later = later || asker_ != nullptr;
    }
    if (later || self.use_count() == 1)
        complete_later(std::move(self));
}

/* As plait_work_wait(), but Ctrl-C and python's other signal handlers, which run on the main thread,
 * are heard meanwhile; what they raise is thrown. */
static plait_status wait_hearing_signals(plait_work *handle, int64_t timeout_ms)
{
    constexpr int64_t slice_ms = 100;
    const bool main_thread = syscall(SYS_gettid) == getpid();
    if (!main_thread || !Py_IsInitialized())
        return plait_work_wait(handle, timeout_ms);
    for (int64_t left_ms = timeout_ms;; left_ms = left_ms < 0 ? left_ms : std::max<int64_t>(0, left_ms - slice_ms)) {
        int64_t turn_ms = left_ms < 0 ? slice_ms : std::min(left_ms, slice_ms);
        plait_status status = plait_work_wait(handle, turn_ms);
        if (status != PLAIT_IN_PROGRESS || left_ms == turn_ms)
            return status;
        pybind11::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0)
            throw pybind11::error_already_set();
    }
}

void WorkPlait::see_through()
{
    begin();
    try {
        for (const Part &part : parts_)
            wait_hearing_signals(part.handle, -1);
    } catch (...) {
        watch(); /* the operation goes on without its caller */
        throw;
    }
    for (const Part &part : parts_)
        part_ended(part, plait_work_wait(part.handle, -1));
    settle();
    if (counted_)
        complete_later(c10::intrusive_ptr<WorkPlait>::reclaim_copy(this));
    std::exception_ptr failure = exception();
    if (failure)
        std::rethrow_exception(failure);
}

/* In a handler: notes the exception, if it is the first. */
void WorkPlait::keep_failure()
{
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (!failure_)
        failure_ = std::current_exception();
}

/* Notes how a part went. Parts may end on several threads at once. */
void WorkPlait::part_ended(const Part &part, plait_status status)
{
    try {
        if (status != PLAIT_OK) {
            plait_work_status(part.handle); /* makes the work's sentence this thread's */
            throw_failure(status, part.handle, title_, home_->place);
        }
        size_t count = plait_work_count(part.handle);
        if (part.expected != SIZE_MAX && count != part.expected)
            throw_failure(PLAIT_MISMATCH,
                          c10::str(title_, ": a message of ", count, " elements came from rank ",
                                   plait_work_source(part.handle), " where this tensor has ", part.expected,
                                   "; its first ", count, " elements were overwritten [on ", *home_->place, "]"));
    } catch (...) {
        keep_failure();
    }
}

/* All parts have ended: outputs, then the work's state, whose waiters wake. */
void WorkPlait::settle() noexcept
{
    try {
        if (!failure_)
            staging.copy_back();
        if (!failure_ && finish_late)
            finish_late();
    } catch (...) {
        keep_failure();
    }
    ended_ = std::chrono::steady_clock::now();
    finish(failure_);
}

void WorkPlait::complete()
{
    if (!isCompleted())
        settle();
    complete_futures();
    if (counted_)
        call_hook();
}

void WorkPlait::call_hook()
{
    if (isSuccess()) {
        try {
            home_->hook(std::make_shared<c10d::WorkInfo>(opType_, number_, began_, ended_,
                                                         std::chrono::duration<float>(ended_ - began_)));
        } catch (const std::exception &error) {
            TORCH_WARN("plait: the completion hook of ", *home_->place, " failed: ", error.what());
        } catch (...) {
            TORCH_WARN("plait: the completion hook of ", *home_->place, " failed");
        }
    }
    std::lock_guard<std::mutex> lock(home_->mutex);
    if (--home_->pending == 0)
        home_->all_done.notify_all();
}

/* ----------------------------------------------------------------- waiting */

bool WorkPlait::wait(std::chrono::milliseconds timeout)
{
    TORCH_CHECK(started_, title_, ": this call belongs to a batch that startCoalescing() has begun and "
                "endCoalescing() has not started yet; wait for the batch (of calls in a batch, say async_op=True)");
    auto deadline = std::chrono::steady_clock::now() + timeout;
    for (size_t i = 0; i < parts_.size() && !isCompleted(); i++) {
        int64_t left_ms = -1;
        if (timeout.count() > 0) {
            auto left = deadline - std::chrono::steady_clock::now();
            left_ms = std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
        }
        plait_status status = wait_hearing_signals(parts_[i].handle, left_ms);
        if (status == PLAIT_IN_PROGRESS)
            throw_failure(status, c10::str(title_, ": Timed out waiting for ", timeout.count(), " ms on ",
                                           *home_->place, "; the operation goes on and can be waited for again"));
        if (plait_work_status(parts_[i].handle) == PLAIT_IN_PROGRESS) /* a forked child may not wait */
            throw_failure(status, nullptr, title_, home_->place);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [this] { return completed_; }); /* the callback may be at it on another thread */
    auto future = outputs_promised_.future;
    lock.unlock();
    if (future != nullptr) { /* whoever waited for the work finds its future done as well */
        complete_futures();
        future->wait();
    }
    if (exception_)
        std::rethrow_exception(exception_);
    return true;
}

void WorkPlait::abort()
{
    plait_comm *comm = home_->comm;
    if (comm != nullptr && !isCompleted())
        plait_comm_abort(comm, "abort() of a work was called");
}

std::vector<at::Tensor> WorkPlait::result()
{
    TORCH_CHECK(isCompleted(), title_, ": the result is there when the work is done; call wait() first");
    return outputs;
}

int WorkPlait::sourceRank() const
{
    return parts_.empty() ? -1 : plait_work_source(parts_[0].handle);
}

uint64_t WorkPlait::getSequencenumber() const
{
    return number_;
}

float WorkPlait::getDuration() const
{
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(completed_, title_, ": the duration is known when the work is done; call wait() first");
    return std::chrono::duration<float, std::milli>(ended_ - began_).count();
}

/* ----------------------------------------------------------------- futures */

WorkPlait::Future WorkPlait::future_of(Promise &promise, const c10::TypePtr &type)
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (promise.future != nullptr)
        return promise.future;
    promise.future = c10::make_intrusive<c10::ivalue::Future>(type);
    Future future = promise.future;
    if (asker_ == nullptr)
        asker_ = std::make_unique<at::ThreadLocalState>();
    bool completed = completed_;
    lock.unlock();
    if (completed)
        complete_futures();
    return future;
}

WorkPlait::Future WorkPlait::getFuture()
{
    return future_of(outputs_promised_, c10::ListType::create(c10::TensorType::get()));
}

WorkPlait::Future WorkPlait::getFutureResult()
{
    return future_of(code_promised_, c10::IntType::get());
}

c10d::WorkResult WorkPlait::result_code() const
{
    if (!exception_)
        return c10d::WorkResult::SUCCESS;
    try {
        std::rethrow_exception(exception_);
    } catch (const Failure &failure) {
        return failure.status == PLAIT_TIMED_OUT ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
    } catch (...) {
        return c10d::WorkResult::UNKNOWN;
    }
}

/* Of threads that come at the same time, one takes a promise and keeps it. */
void WorkPlait::complete_futures()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (asker_ == nullptr)
        return;
    auto asker = std::move(asker_);
    Future future = outputs_promised_.take(), code = code_promised_.take();
    auto failure = exception_;
    lock.unlock();
    at::ThreadLocalStateGuard guard(*asker);
    if (code != nullptr)
        code->markCompleted(c10::IValue(static_cast<int64_t>(result_code())));
    if (future == nullptr)
        return;
    if (failure)
        future->setError(failure);
    else
        future->markCompleted(c10::IValue(outputs));
}

} // namespace plait_torch
