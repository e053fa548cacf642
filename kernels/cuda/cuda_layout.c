#include "kernels/cuda/cuda_layout.h"

#include "base/checked.h"
#include "kernels/cuda/gemm/w4a16_sizes.h"

size_t yk_w4a16_packed_bytes(const yk_w4a16_desc *desc)
{
  return (size_t)(yk_w4a16_n_panels(desc) * yk_w4a16_n_k_tiles(desc)) * (size_t)yk_w4a16_panel_bytes(desc);
}

/* ---- Linear layers ----------------------------------------------------------------------------------------------- */

/* Rows of the slice that share a scale in the packed form: everything, where one group covers the slice. */
static int64_t packed_group(const yk_linear_part *part)
{
  return yk_min_i64(part->group_local, yk_range_size(part->k));
}

static bool can_pack(const yk_linear_spec *spec, const yk_linear_part *part)
{
  int64_t k = yk_range_size(part->k), n = yk_range_size(part->n);
  if (part->weight.format != YK_WEIGHT_AWQ || spec->f32_output || k == 0 || k % 32 || n % 8) return false;
  int64_t group = packed_group(part), phase = part->k.begin % part->weight.group;
  return group == k || (group % 32 == 0 && part->weight.group % group == 0 && phase % group == 0);
}

static bool can_pack_gate_up(const yk_linear_spec *spec)
{
  const yk_linear_part *gate = &spec->parts[0], *up = &spec->parts[1];
  return can_pack(spec, gate) && can_pack(spec, up) && packed_group(gate) == packed_group(up);
}

/* Bytes of a product's weights within the layer's memory. */
static int64_t weight_bytes(const yk_cuda_product *p)
{
  if (p->is_resident) return 0;
  return p->is_packed ? (int64_t)yk_w4a16_packed_bytes(&p->desc) : p->n * p->k * 2;
}

/* A layer that is one plain slice over all of k whose rows the device holds. */
static bool is_resident(const yk_linear_spec *spec)
{
  const yk_linear_part *part = &spec->parts[0];
  return spec->n_parts == 1 && part->is_resident && part->weight.format == YK_WEIGHT_PLAIN &&
         yk_range_size(part->k) == part->weight.k;
}

/* Part i joins the product before it, or begins one. */
static void add_part(const yk_linear_spec *spec, yk_dtype dtype, int i, bool is_packed, yk_cuda_product *products,
                     int *n_products)
{
  const yk_linear_part *part = &spec->parts[i];
  yk_cuda_product *last = *n_products ? &products[*n_products - 1] : NULL;
  int64_t n = yk_range_size(part->n);
  if (n == 0) return;
  if (!last || last->is_packed != is_packed || (is_packed && last->desc.group != packed_group(part))) {
    int64_t first_column = last ? last->first_column + last->n : 0;
    last = &products[(*n_products)++];
    *last = (yk_cuda_product){
        .is_packed = is_packed, .first_part = i, .k = yk_range_size(part->k), .first_column = first_column};
    if (is_packed) last->desc = (yk_w4a16_desc){.k = last->k, .group = packed_group(part), .dtype = dtype};
  }
  last->end_part = i + 1;
  last->n += n;
  last->desc.n = last->n;
  last->has_bias |= part->use_bias;
}

int64_t yk_cuda_linear_lay_out(const yk_linear_spec *spec, yk_dtype dtype,
                               yk_cuda_product products[YK_MAX_LINEAR_PARTS], int *n_products)
{
  bool silu = spec->epilogue == YK_EPILOGUE_SILU_MUL, packs_both = silu && can_pack_gate_up(spec);
  *n_products = 0;
  for (int i = 0; i < spec->n_parts; i++)
    add_part(spec, dtype, i, silu ? packs_both : can_pack(spec, &spec->parts[i]), products, n_products);
  if (*n_products == 1 && is_resident(spec)) {
    products[0].is_resident = true;
    products[0].resident = spec->parts[0].resident;
  }
  int64_t end = 0;
  for (int i = 0; i < *n_products; i++) {
    yk_cuda_product *p = &products[i];
    p->desc.gate_up = silu;
    p->weights = end;
    p->bias = yk_round_up_i64(p->weights + weight_bytes(p), YK_CUDA_ALIGNMENT_BYTES);
    end = yk_round_up_i64(p->bias + (p->has_bias ? p->n * 4 : 0), YK_CUDA_ALIGNMENT_BYTES);
  }
  return end;
}

int64_t yk_cuda_linear_bytes(const yk_linear_spec *spec)
{
  yk_cuda_product products[YK_MAX_LINEAR_PARTS];
  int n_products;
  return yk_cuda_linear_lay_out(spec, YK_F16, products, &n_products);
}

/* ---- The device itself ------------------------------------------------------------------------------------------- */

int64_t yk_cuda_device_own_bytes(const yk_device_limits *limits)
{
  const int64_t rest = INT64_C(64) << 20; /* workspaces of products and attention */
  return YK_CUDA_CUBLAS_BYTES + rest + (int64_t)limits->max_seqs * limits->vocab * (int64_t)sizeof(uint32_t);
}
