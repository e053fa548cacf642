/* attention_check.cuh - the checks of bench_attention: decode, prefill and a replayed graph against float64, and the
 * same bits from run to run. */
#ifndef YK_BENCH_ATTENTION_CHECK_CUH
#define YK_BENCH_ATTENTION_CHECK_CUH

#include "bench/attention_step.cuh"

namespace attention {

inline double error_of(const machine &m, const step &st)
{
  const yk_attention_args a = st.args(0);
  double *ref;
  CUDA_OK(cudaMalloc(&ref, st.y_elements * 8));
  const dim3 grid(static_cast<unsigned>(st.batch.n_tokens), static_cast<unsigned>(st.s.heads.n_q_heads));
  const size_t smem = static_cast<size_t>(st.batch.max_kv_tokens) * 4 + 16;
  auto launch = [&](auto kernel) {
    CUDA_OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem)));
    kernel<<<grid, 128, smem, m.stream>>>(a, st.batch, ref);
  };
  if (st.s.dtype == YK_F16)
    launch(reference<__half>);
  else
    launch(reference<__nv_bfloat16>);
  CUDA_OK(cudaGetLastError());
  std::vector<double> want(st.y_elements);
  std::vector<uint16_t> got(st.y_elements);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  CUDA_OK(cudaMemcpy(want.data(), ref, st.y_elements * 8, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaMemcpy(got.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaFree(ref));
  double diff = 0, norm = 0;
  for (size_t i = 0; i < st.y_elements; i++) {
    if (std::isnan(want[i])) continue; /* a row that belongs to no sequence */
    double g;
    if (st.s.dtype == YK_F16) {
      __half_raw v;
      v.x = got[i];
      g = __half2float(__half(v));
    } else {
      g = yk_bf16_to_f32(got[i]);
    }
    diff += (g - want[i]) * (g - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(diff / norm);
}

/* Run a step, compare the output with the reference, and run the step three more times to compare bits. Prints a line
 * on failure, or always if verbose. */
inline bool check(const machine &m, const shape &of, unsigned seed, bool verbose)
{
  shape s = of;
  s.format = m.format;
  s.has_channels = s.format != YK_KV_ACT && seed % 2;
  step st(s, 1, seed);
  std::vector<uint16_t> first(st.y_elements), again(st.y_elements);
  CUDA_OK(cudaMemsetAsync(st.y, 0xff, st.y_elements * 2, m.stream));
  run(m, st, 0);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  const double error = error_of(m, st);
  CUDA_OK(cudaMemcpy(first.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
  bool same = true;
  for (int i = 0; i < 3 && same; i++) {
    run(m, st, 0);
    CUDA_OK(cudaStreamSynchronize(m.stream));
    CUDA_OK(cudaMemcpy(again.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
    same = first == again;
  }
  const double limit = s.dtype == YK_F16 ? 1e-3 : 8e-3;
  const bool good = error < limit && same;
  if (!good || verbose)
    printf("%-6s %-58s seed %u: error %.2e (limit %.0e)%s\n", good ? "ok" : "WRONG", s.name.c_str(), seed, error, limit,
           same ? "" : ", bits differ between runs");
  return good;
}

inline bool check_decode(const machine &m, bool verbose)
{
  bool good = true;
  unsigned seed = std::random_device()();
  const std::vector<int> edges = {1, 15, 16, 17, 64, 65, 1000, 2047, 3, 700, 128};
  for (yk_dtype dtype : {YK_F16, YK_BF16}) {
    const std::string suffix = dtype == YK_F16 ? " f16" : " bf16";
    for (int hd : {64, 80, 96, 128, 16, 20, 36, 192, 256, 512}) {
      const std::string size = " hd " + std::to_string(hd) + suffix;
      good &= check(m, decode("decode 8/2 edges" + size, plain_heads(8, 2, hd), dtype, 0, edges), seed++, verbose);
      good &=
          check(m, decode("decode 8/2 window 100" + size, plain_heads(8, 2, hd), dtype, 100, edges), seed++, verbose);
      good &= check(m, decode("decode 14/2" + size, plain_heads(14, 2, hd), dtype, 0, spread_lengths(9, 1, 900, seed)),
                    seed, verbose);
      good &= check(m, decode("decode 24/2" + size, plain_heads(24, 2, hd), dtype, 0, spread_lengths(9, 1, 900, seed)),
                    seed, verbose);
      good &= check(m, decode("decode 40/1" + size, plain_heads(40, 1, hd), dtype, 7, spread_lengths(5, 1, 900, seed)),
                    seed, verbose);
      good &= check(m,
                    decode("decode q heads 3..8, 4 a KV head" + size, {6, 3, hd, 4, 3, 0, true}, dtype, 0,
                           spread_lengths(9, 1, 900, seed)),
                    seed, verbose);
    }
    for (const yk_head_layout &h : {gated_heads(24, 4, 256), gated_heads(32, 2, 256)}) {
      const std::string size = std::to_string(h.n_q_heads) + "/" + std::to_string(h.n_kv_heads) + " hd 256" + suffix;
      good &= check(m, decode("decode 1 x 20000 " + size, h, dtype, 0, {20000}), seed++, verbose);
      good &= check(m, decode("decode 64 x 1..4096 " + size, h, dtype, 0, spread_lengths(64, 1, 4096, seed)), seed,
                    verbose);
    }
    for (int n : {1, 2, 8, 16, 17, 33, 64})
      good &= check(m,
                    decode("decode 32/8, " + std::to_string(n) + " x 600" + suffix, plain_heads(32, 8, 128), dtype, 0,
                           std::vector<int>(n, 600)),
                    seed++, verbose);
    good &=
        check(m, decode("decode 32/8, 1 x 1024" + suffix, plain_heads(32, 8, 128), dtype, 0, {1024}), seed++, verbose);
    good &= check(m, decode("decode 32/8, 1 x 20000" + suffix, plain_heads(32, 8, 128), dtype, 0, {20000}), seed++,
                  verbose);
    good &= check(m,
                  decode("decode 32/8, 64 x 1..4096" + suffix, plain_heads(32, 8, 128), dtype, 0,
                         spread_lengths(64, 1, 4096, seed)),
                  seed, verbose);
    good &= check(
        m,
        decode("decode 4/2, 2100 x 1..64" + suffix, plain_heads(4, 2, 64), dtype, 0, spread_lengths(2100, 1, 64, seed)),
        seed, verbose);
  }
  return good;
}

inline bool check_prefill(const machine &m, bool verbose)
{
  bool good = true;
  unsigned seed = std::random_device()();
  for (yk_dtype dtype : {YK_F16, YK_BF16}) {
    const std::string suffix = dtype == YK_F16 ? " f16" : " bf16";
    for (int hd : {64, 80, 96, 128, 20, 256, 512}) {
      const std::string size = " hd " + std::to_string(hd) + suffix;
      for (int window : {0, 100}) {
        const std::string name = (window ? " window 100" : "") + size;
        good &= check(m, {"prefill 8/2, 1 x 300" + name, plain_heads(8, 2, hd), dtype, window, {300}, {300}}, seed++,
                      verbose);
        good &= check(m,
                      {"chunks, decodes and prefills 8/2" + name,
                       plain_heads(8, 2, hd),
                       dtype,
                       window,
                       {1, 17, 200, 1, 2, 128, 129},
                       {400, 17, 1000, 1, 700, 128, 257}},
                      seed++, verbose);
        good &= check(m, {"chunks 14/2" + name, plain_heads(14, 2, hd), dtype, window, {77, 31, 2}, {177, 31, 900}},
                      seed++, verbose);
        good &= check(m,
                      {"chunks, q heads 3..8, 4 a KV head" + name,
                       {6, 3, hd, 4, 3, 0, true},
                       dtype,
                       window,
                       {65, 300, 1},
                       {165, 300, 33}},
                      seed++, verbose);
      }
      good &= check(m, {"prefill 40/1" + size, plain_heads(40, 1, hd), dtype, 0, {70, 9}, {370, 9}}, seed++, verbose);
      good &= check(m, {"prefill 2/2" + size, plain_heads(2, 2, hd), dtype, 0, {513}, {1025}}, seed++, verbose);
    }
    good &= check(m, {"prefill 32/8, 1 x 1500" + suffix, plain_heads(32, 8, 128), dtype, 0, {1500}, {1500}}, seed++,
                  verbose);
    good &= check(m, {"prefill 32/2 hd 256, 1 x 1500" + suffix, gated_heads(32, 2, 256), dtype, 0, {1500}, {1500}},
                  seed++, verbose);
    good &= check(m,
                  {"prefill 24/4 hd 256, 40 x 1..300" + suffix, gated_heads(24, 4, 256), dtype, 0,
                   spread_lengths(40, 1, 300, 5), spread_lengths(40, 1, 300, 5)},
                  seed++, verbose);
    good &= check(m,
                  {"prefill 8/2, 40 x 1..300" + suffix, plain_heads(8, 2, 128), dtype, 0, spread_lengths(40, 1, 300, 5),
                   spread_lengths(40, 1, 300, 5)},
                  seed++, verbose);
  }
  return good;
}

/* Captures a graph for 16 sequences and replays it with other lengths and with fewer sequences. */
inline bool check_replay(const machine &m, const yk_head_layout &heads, bool verbose)
{
  shape s = decode("replay with other lengths, hd " + std::to_string(heads.head_dim), heads, YK_F16, 0,
                   std::vector<int>(16, 900));
  s.format = m.format;
  step st(s, 1, 99);
  run(m, st, 0);
  cudaGraphExec_t exec = capture(m.stream, [&](cudaStream_t) { run(m, st, 0); });
  bool good = true;
  for (int n : {16, 11, 1}) {
    std::vector<int32_t> kv = spread_lengths(16, 1, 900, static_cast<unsigned>(n)), starts;
    for (int i = 0; i <= 16; i++) starts.push_back(std::min(i, n));
    for (int i = n; i < 16; i++) kv[i] = 0;
    CUDA_OK(cudaMemcpy(const_cast<int32_t *>(st.batch.kv_tokens), kv.data(), 64, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(const_cast<int32_t *>(st.batch.row_starts), starts.data(), 68, cudaMemcpyHostToDevice));
    CUDA_OK(cudaDeviceSynchronize()); /* the stream is not ordered after the copies */
    CUDA_OK(cudaMemsetAsync(st.y, 0xff, st.y_elements * 2, m.stream));
    CUDA_OK(cudaGraphLaunch(exec, m.stream));
    CUDA_OK(cudaStreamSynchronize(m.stream));
    step view = st;
    view.owned.clear();
    view.batch.n_tokens = n;
    view.y_elements = static_cast<size_t>(n) * heads.n_q_heads * heads.head_dim;
    const double error = error_of(m, view);
    const bool is_right = error < 1e-3;
    good &= is_right;
    if (!is_right || verbose)
      printf("%-6s %s, %d of 16 sequences: error %.2e\n", is_right ? "ok" : "WRONG", s.name.c_str(), n, error);
  }
  return good;
}

} // namespace attention

#endif
