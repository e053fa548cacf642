/* linear_timed_gemm.cuh - what bench_linear knows of a GEMM that it times, whatever the format of its weights. */
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

  /* Bytes of the checkpoint's weights, with scales and zeros: what the memory must deliver at least. */
  virtual double weight_bytes() const = 0;
  /* Which kernel, for the report. */
  virtual std::string plan() const = 0;
  /* Normalised error against the format's definition in float64; a wrong result ends the program. */
  virtual double checked_error() = 0;
  /* The weights on the device, of which copies are made to have cold ones. */
  virtual const device_array<uint8_t> &packed() const = 0;
  /* One call with a copy of the weights. second_half: of two calls that follow each other, the second. */
  virtual void forward(const uint8_t *weights, bool second_half, cudaStream_t stream) = 0;
  /* The kernels of a forward, where they are several, to be timed one by one. */
  virtual std::vector<step> steps()
  {
    return {};
  }
  /* W rounded to 16 bits, [n, k], for the GEMM of plain weights; and inputs and outputs of m tokens for it. */
  virtual void expand(uint16_t *out) const = 0;
  virtual const uint16_t *x() const = 0;
  virtual uint16_t *y() = 0;
};

} // namespace linear

#endif
