/* Waiting with other python threads at work. */
#pragma once

#include <Python.h>

namespace plait_torch {

/* Lets other python threads run while this one waits; a no-op without the GIL. */
class GilReleased {
  public:
    GilReleased() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr)
    {
    }
    ~GilReleased()
    {
        if (state_ != nullptr)
            PyEval_RestoreThread(state_);
    }
    GilReleased(const GilReleased &) = delete;
    GilReleased &operator=(const GilReleased &) = delete;

  private:
    PyThreadState *const state_;
};

} // namespace plait_torch
