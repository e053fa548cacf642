/* cpu_simd_kv.h - the codes of an 8-bit KV cache as floats.
 *
 * Included by cpu_simd_kernels.h after cpu_simd_bytes.h; has no further requirements. */

/* Sixteen codes; e4m3 codes are loaded divided by 256, which scale compensates. */
ALWAYS_INLINE wide kv_lanes(const uint8_t *codes, const bool is_fp8, wide scale, const float *c, const float *o)
{
  wide q = is_fp8 ? wide_mul(wide_load_e4m3(codes), wide_set1(0x1p8f)) : wide_load_i8((const int8_t *)codes);
  if (c) q = wide_mul(wide_load(c), wide_sub(q, wide_load(o)));
  return wide_mul(scale, q);
}

ALWAYS_INLINE void kv_row(float *dst, const yk_cpu_kv_row *row, const bool is_fp8, size_t n)
{
  enum { LANES = YK_CPU_LANES };
  wide scale = wide_set1(row->scale);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES)
    wide_store(dst + i, kv_lanes(row->codes + i, is_fp8, scale, row->channels ? row->channels + i : NULL,
                                 row->channels ? row->offsets + i : NULL));
  if (i == n) return;
  uint8_t codes[LANES] = {0};
  float c[LANES] = {0}, o[LANES] = {0}, out[LANES];
  memcpy(codes, row->codes + i, n - i);
  if (row->channels) {
    memcpy(c, row->channels + i, (n - i) * sizeof *c);
    memcpy(o, row->offsets + i, (n - i) * sizeof *o);
  }
  wide_store(out, kv_lanes(codes, is_fp8, scale, row->channels ? c : NULL, o));
  memcpy(dst + i, out, (n - i) * sizeof *out);
}

static void kv_dequantise(float *dst, const yk_cpu_kv_row *row, size_t n)
{
  if (row->format == YK_KV_FP8)
    kv_row(dst, row, true, n);
  else
    kv_row(dst, row, false, n);
}
