/* linear_timed_gemm.cuh - the interface of a GEMM that bench_linear times, for any format of weights. */
#ifndef YK_BENCH_LINEAR_TIMED_GEMM_CUH
#define YK_BENCH_LINEAR_TIMED_GEMM_CUH

#include <functional>
#include <string>
#include <vector>

#include "bench/linear_gemm.cuh"

namespace linear {

struct gemm_shape {
  int64_t k, n, group;
  yk_dtype dtype;
  bool gate_up;
};

/* One kernel of a forward. */
struct step {
  const char *name;
  std::function<void(const uint8_t *weights, cudaStream_t stream)> launch;
};

/* A GEMM of m tokens with random weights and inputs. */
struct timed_gemm {
  virtual ~timed_gemm() = default;

  /* Bytes of the checkpoint's weights, with scales and zeros: the least that is read from memory. */
  virtual double weight_bytes() const = 0;
  /* Name of the kernel, for the report. */
  virtual std::string plan() const = 0;
  /* The weights on the device. Copies of them are made to have cold weights. */
  virtual const device_array<uint8_t> &packed() const = 0;
  /* One call with a copy of the weights. second_half: the second of two consecutive calls. */
  virtual void forward(const uint8_t *weights, bool second_half, cudaStream_t stream) = 0;
  /* The kernels of a forward, to be timed one by one, if there are several. */
  virtual std::vector<step> steps()
  {
    return {};
  }
  /* Inputs and outputs of m tokens, for the GEMM of plain weights. */
  virtual const uint16_t *x() const = 0;
  virtual uint16_t *y() = 0;
};

} // namespace linear

#endif
