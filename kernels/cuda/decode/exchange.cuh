/* exchange.cuh - rows that thread blocks exchange through global memory, in packets that are read and written
 * atomically and contain the number of their layer. A reader polls a packet until the number is that of its layer, so
 * no fence and no other flag is needed. Layers are counted over all launches.
 *
 *   pair     8 bytes: two elements of the activation type, or a float; the layer
 *   chunk    16 bytes: 8 elements with a common exponent e, as integers m of 14 bits, |m| <= 8191: x = m 2^(e - 139),
 *            where 2^(e - 126) is above the largest |x|. Word i holds elements 2i and 2i + 1 in bits 18 to 31 and 4 to
 *            17, bits 2i and 2i + 1 of e in bits 2 and 3, and the two lowest bits of the layer. The error is at most
 *            2^-14 of the largest |x|; that of float16 is 2^-12 of each element. An infinity or a NaN makes e 255: then
 *            no element is finite. Every word has bits of the layer because only words are atomic between GPUs.
 *
 * Every layer uses the same packets. A thread block overwrites a packet only after all thread blocks have read its
 * former value: every thread block has columns of `down`, and writes them after all its other reads of the layer; and
 * no thread block writes a packet of the next layer before it has read the whole row of `down`. Packets of `down` are
 * written after the row between the FFN's GEMMs has been read, to which every thread block contributes after it has
 * read the row of `down` of the layer before. So a packet, or a word, that is not of the expected layer is of the layer
 * before, and two bits suffice to tell them apart.
 *
 * Several ranks: each thread block stores its columns of o and down into the memory of every rank, and every thread
 * block adds the rows of all ranks in rank order. The order above holds over all ranks: a thread block that has
 * received the row of o, or of down, has it from all thread blocks of all ranks. Reads then also end when the group is
 * aborted, or when a rank is missing (kernels/peer_wait.h): the kernel continues with what it has, without further
 * waits, and its results are undefined. */
#ifndef YK_KERNELS_CUDA_DECODE_EXCHANGE_CUH
#define YK_KERNELS_CUDA_DECODE_EXCHANGE_CUH

#include "kernels/cuda/decode/params.cuh"
#include "kernels/cuda/ptx/clock.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_decode {

constexpr int NO_RANK = -1; /* awaited: the rank's own thread blocks, which may themselves wait for another rank */

/* A thread's reads of packets. SHARED: of several ranks. */
template <bool SHARED> struct packet_reader {
  static constexpr int POLLS_PER_CHECK = 1024; /* the flags are in host memory */
  static constexpr int TICK_BITS = 20;         /* time is measured in units of 2^20 ns */
  const yk_peer_wait &wait;
  int n_polls = 0;
  uint32_t began = 0; /* the first check of the present wait; 0: none */
  bool has_ended = false;

  /* Called for a packet of rank `awaited` that has not arrived. Returns whether to continue without it. */
  __device__ __forceinline__ bool gives_up(int awaited)
  {
    if constexpr (!SHARED) return false;
    if (has_ended) return true;
    n_polls++;
    if (n_polls % POLLS_PER_CHECK != 0) return false;
    const uint32_t now = static_cast<uint32_t>(yk_ptx::nanoseconds() >> TICK_BITS) | 1; /* never 0 */
    if (began == 0) began = now;
    has_ended = *wait.is_aborted != 0 || *wait.failed != 0;
    if (has_ended || awaited == NO_RANK || now - began <= wait.limit_ns >> TICK_BITS) return has_ended;
    *wait.missing = awaited;
    __threadfence_system();
    *wait.failed = 1;
    has_ended = true;
    return true;
  }

  /* Called when a wait is over. */
  __device__ __forceinline__ void arrived()
  {
    if constexpr (SHARED) began = 0;
  }
};

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void send(uint2 *to, uint32_t value, uint32_t layer)
{
  yk_ptx::store_relaxed_gpu8(to, make_uint2(value, layer));
}

/* Two neighbouring packets, aligned to 16 bytes. */
__device__ __forceinline__ void send_two(uint2 *to, uint32_t first, uint32_t second, uint32_t layer)
{
  yk_ptx::store_relaxed_gpu8x2(reinterpret_cast<uint4 *>(to), make_uint4(first, layer, second, layer));
}

/* The values of the packets at `from` and `stride` further. */
template <bool SHARED>
__device__ __forceinline__ uint2 receive_two(packet_reader<SHARED> &reader, const uint2 *from, int stride,
                                             uint32_t layer)
{
  uint2 first, second;
  do {
    first = yk_ptx::load_relaxed_gpu8(from);
    second = yk_ptx::load_relaxed_gpu8(from + stride);
  } while ((first.y != layer || second.y != layer) && !reader.gives_up(NO_RANK));
  reader.arrived();
  return make_uint2(first.x, second.x);
}

/* The values of N times two neighbouring packets, each two aligned to 16 bytes. The loads of all are in flight
 * together. */
template <int N, bool SHARED>
__device__ __forceinline__ void receive_pairs(packet_reader<SHARED> &reader, const uint2 *const (&from)[N],
                                              uint32_t layer, float2 (&values)[N])
{
  bool is_complete;
  do {
    is_complete = true;
    uint4 packets[N];
#pragma unroll
    for (int i = 0; i < N; i++) packets[i] = yk_ptx::load_relaxed_gpu8x2(reinterpret_cast<const uint4 *>(from[i]));
#pragma unroll
    for (int i = 0; i < N; i++) {
      is_complete = is_complete && packets[i].y == layer && packets[i].w == layer;
      values[i] = make_float2(__uint_as_float(packets[i].x), __uint_as_float(packets[i].z));
    }
  } while (!is_complete && !reader.gives_up(NO_RANK));
  reader.arrived();
}

/* ---- Chunks ------------------------------------------------------------------------------------------------------ */

constexpr int CHUNK_BIAS = 139; /* x = m 2^(e - CHUNK_BIAS) */
constexpr int MOST_INTEGER = 8191;
constexpr int LEAST_EXPONENT = 13; /* smaller elements become zeros: inverses of their units would overflow */
constexpr uint32_t LAYER_MASK = 3;

__device__ __forceinline__ int exponent_of(float largest)
{
  return max(static_cast<int>(__float_as_uint(largest) >> 23), LEAST_EXPONENT);
}

/* The integer of an element of a chunk whose largest element has exponent e. */
__device__ __forceinline__ int integer_of(float x, int exponent)
{
  const int m = __float2int_rn(x * __uint_as_float(static_cast<uint32_t>(127 + CHUNK_BIAS - exponent) << 23));
  return min(max(m, -MOST_INTEGER), MOST_INTEGER);
}

/* Word i of a chunk without its four lowest bits. */
__device__ __forceinline__ uint32_t word_of(int first, int second)
{
  return static_cast<uint32_t>(first) << 18 | (static_cast<uint32_t>(second) & 0x3FFFu) << 4;
}

/* Its four lowest bits. */
__device__ __forceinline__ uint32_t low_bits_of(int i, int exponent, uint32_t layer)
{
  return (static_cast<uint32_t>(exponent) >> 2 * i & 3u) << 2 | (layer & LAYER_MASK);
}

__device__ __forceinline__ int exponent_of(const uint4 &chunk)
{
  return static_cast<int>((chunk.x & 12u) >> 2 | (chunk.y & 12u) | (chunk.z & 12u) << 2 | (chunk.w & 12u) << 4);
}

/* The elements of a chunk as integers in bits 18 to 31; the lower bits are 0. */
__device__ __forceinline__ void integers_of(const uint4 &chunk, int (&m)[CHUNK])
{
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    m[2 * i] = static_cast<int>(words[i] & 0xFFFC0000u);
    m[2 * i + 1] = static_cast<int>(words[i] << 14 & 0xFFFC0000u);
  }
}

/* Within a GPU the 16 bytes are atomic, and the first word stands for all. */
template <bool SHARED> __device__ __forceinline__ bool is_of_layer(const uint4 &chunk, uint32_t layer)
{
  if constexpr (!SHARED) return ((chunk.x ^ layer) & LAYER_MASK) == 0;
  return (((chunk.x ^ layer) | (chunk.y ^ layer) | (chunk.z ^ layer) | (chunk.w ^ layer)) & LAYER_MASK) == 0;
}

template <bool SHARED> __device__ __forceinline__ uint4 load_chunk(const uint4 *from)
{
  return SHARED ? yk_ptx::load_relaxed_sys128(from) : yk_ptx::load_relaxed_gpu128(from);
}

/* Polls until the chunk of rank `awaited` is of the layer; chunk: an earlier load. */
template <bool SHARED>
__device__ __forceinline__ void await_chunk(packet_reader<SHARED> &reader, const uint4 *from, int awaited,
                                            uint32_t layer, uint4 &chunk)
{
  while (!is_of_layer<SHARED>(chunk, layer) && !reader.gives_up(awaited)) chunk = load_chunk<SHARED>(from);
  reader.arrived();
}

} // namespace yk_decode

#endif
