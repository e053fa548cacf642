/* decode_layers.c - see decode_layers.h: which layers the kernel of decode.h takes, its table of weights, and its
 * launches. */
#include "kernels/cuda/decode/decode_layers.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/decode/decode.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/gemm/packed_sizes.h"
#include "kernels/cuda/linear/format_wna16.h"
#include "kernels/cuda/linear/prepared.h"

struct yk_decode_layers {
  yk_decode_shape shape;
  int32_t max_kv_tokens;
  yk_decode_weights *weights; /* device [n_layers] */
  void *exchange;             /* device: of the kernel's thread blocks, and of other ranks */
  yk_decode_peers peers;      /* exchange of this rank NULL: not connected */
  const float *rope;
  const void *final_norm_w;
};

/* ---- Which layers the kernel takes ------------------------------------------------------------------------------- */

/* Inputs and columns of weights of a GEMM. */
typedef struct gemm_size {
  int64_t k, n;
} gemm_size;

static void sizes_of(const yk_decode_shape *shape, gemm_size sizes[YK_DECODE_N_GEMMS])
{
  const int64_t q_width = (int64_t)shape->n_q_heads * shape->head_dim;
  const int64_t kv_width = (int64_t)shape->n_kv_heads * shape->head_dim;
  sizes[YK_DECODE_QKV] = (gemm_size){shape->hidden, q_width + 2 * kv_width};
  sizes[YK_DECODE_O] = (gemm_size){q_width, shape->hidden};
  sizes[YK_DECODE_GATE_UP] = (gemm_size){shape->hidden, 2 * (int64_t)shape->ffn};
  sizes[YK_DECODE_DOWN] = (gemm_size){shape->ffn, shape->hidden};
}

/* Whether a layer is one GEMM of the kernel's form and of this size. */
static bool takes_linear(const yk_linear *linear, gemm_size size)
{
  const yk_cuda_gemm *gemm = &linear->layout.gemms[0];
  if (linear->layout.n_gemms != 1 || linear->n_matrices != 1 || linear->is_grouped || linear->f32_output) return false;
  if (gemm->kind != &yk_cuda_gemm_wna16_int4 || linear->adapters.n_adapters > 0) return false;
  if (gemm->x_size > 0 || gemm->k_slices > 0 || gemm->is_resident) return false;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  return gemm->k == size.k && gemm->n == size.n && yk_gemm_groups_per_k_tile(&desc) == 1;
}

static bool is_same_activation(const yk_activation *a, const yk_activation *b)
{
  return a->kind == b->kind && a->is_gated == b->is_gated && a->alpha == b->alpha && a->limit == b->limit;
}

static bool has_activation(const yk_linear *linear)
{
  return linear->layout.gemms[0].activation.kind != YK_ACTIVATION_NONE;
}

static bool takes_layer(const yk_decode_shape *shape, const yk_decode_layer *layer)
{
  const yk_linear *const linears[YK_DECODE_N_GEMMS] = {layer->qkv, layer->o, layer->gate_up, layer->down};
  gemm_size sizes[YK_DECODE_N_GEMMS];
  sizes_of(shape, sizes);
  for (int i = 0; i < YK_DECODE_N_GEMMS; i++)
    if (!takes_linear(linears[i], sizes[i])) return false;
  if (has_activation(layer->qkv) || has_activation(layer->o) || has_activation(layer->down)) return false;
  if (!is_same_activation(&layer->gate_up->layout.gemms[0].activation, &shape->activation)) return false;
  return layer->kv.format == YK_KV_ACT;
}

/* The shape, whose FFN is that of the first layer. */
static yk_decode_shape shape_of(const yk_device *dev, const yk_decode_layers_spec *spec)
{
  const yk_cuda_gemm *gate_up = &spec->layers[0].gate_up->layout.gemms[0];
  return (yk_decode_shape){.dtype = dev->dtype,
                           .n_layers = spec->n_layers,
                           .hidden = spec->hidden,
                           .ffn = (int32_t)(gate_up->n / 2),
                           .n_q_heads = spec->n_q_heads,
                           .n_kv_heads = spec->n_kv_heads,
                           .head_dim = spec->head_dim,
                           .rank = spec->rank,
                           .n_ranks = spec->n_ranks,
                           .activation = gate_up->activation,
                           .norm_eps = spec->norm_eps,
                           .attention_scale = spec->attention_scale,
                           .alpha = spec->alpha};
}

static bool takes_layers(const yk_decode_shape *shape, const yk_decode_layers_spec *spec)
{
  if (!shape->activation.is_gated) return false;
  for (int32_t i = 0; i < spec->n_layers; i++)
    if (!takes_layer(shape, &spec->layers[i])) return false;
  return true;
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static yk_decode_weights weights_of(const yk_decode_layer *layer)
{
  const yk_linear *const linears[YK_DECODE_N_GEMMS] = {layer->qkv, layer->o, layer->gate_up, layer->down};
  yk_decode_weights weights = {.input_norm_w = layer->input_norm_w,
                               .post_norm_w = layer->post_norm_w,
                               .q_norm_w = layer->q_norm_w,
                               .k_norm_w = layer->k_norm_w,
                               .k = layer->kv.k,
                               .v = layer->kv.v};
  for (int i = 0; i < YK_DECODE_N_GEMMS; i++) {
    const yk_cuda_gemm *gemm = &linears[i]->layout.gemms[0];
    weights.packed[i] = linears[i]->memory + gemm->weights;
    weights.bias[i] = gemm->has_bias ? linears[i]->memory + gemm->bias : NULL;
  }
  return weights;
}

static yk_status upload_weights(yk_cuda_device *cuda, const yk_decode_layers_spec *spec, yk_decode_layers *layers,
                                yk_err *err)
{
  const size_t n_bytes = (size_t)spec->n_layers * sizeof *layers->weights;
  void *memory = NULL;
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &memory, err));
  layers->weights = memory;
  yk_decode_weights *weights = malloc(n_bytes);
  if (!weights) return yk_err_set(err, YK_E_NOMEM, "no memory for the weights of %d layers", spec->n_layers);
  for (int32_t i = 0; i < spec->n_layers; i++) weights[i] = weights_of(&spec->layers[i]);
  yk_status status = yk_cuda_upload(&cuda->base, memory, weights, n_bytes, err);
  free(weights);
  return status;
}

/* Other ranks store into the exchange memory once they are connected, so its zeros must be in place. */
static yk_status load(yk_cuda_device *cuda, const yk_decode_layers_spec *spec, yk_decode_layers *layers, yk_err *err)
{
  YK_TRY(upload_weights(cuda, spec, layers, err));
  YK_TRY(yk_cuda_alloc(&cuda->base, yk_decode_exchange_bytes(&layers->shape), &layers->exchange, err));
  return yk_cuda_drain(cuda, "decode layers", err);
}

yk_status yk_cuda_decode_layers_create(yk_device *dev, const yk_decode_layers_spec *spec, yk_decode_layers **out,
                                       yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  int32_t max_kv_tokens = 0;
  *out = NULL;
  if (spec->n_layers < 1 || spec->n_ranks > YK_DECODE_MOST_RANKS || spec->layers[0].gate_up->layout.n_gemms != 1)
    return YK_OK;
  const yk_decode_shape shape = shape_of(dev, spec);
  if (!takes_layers(&shape, spec)) return YK_OK;
  YK_TRY(yk_cuda_enter(cuda, err));
  YK_TRY(yk_cuda_check(cuda, yk_decode_max_kv_tokens(&cuda->wna16, &shape, &max_kv_tokens), "decode layers", err));
  if (max_kv_tokens < 1) return YK_OK;
  yk_decode_layers *layers = malloc(sizeof *layers);
  if (!layers) return yk_err_set(err, YK_E_NOMEM, "no memory for the layers of a decode step");
  *layers = (yk_decode_layers){
      .shape = shape, .max_kv_tokens = max_kv_tokens, .rope = spec->rope, .final_norm_w = spec->final_norm_w};
  yk_err why = YK_ERR_INIT;
  yk_status status = load(cuda, spec, layers, &why);
  if (status != YK_OK) {
    yk_cuda_decode_layers_destroy(dev, layers);
    if (status == YK_E_CAPACITY) return YK_OK; /* no memory left: the layers run one by one */
    if (err) *err = why;
    return status;
  }
  if (spec->n_ranks == 1) layers->peers.exchange[0] = layers->exchange;
  *out = layers;
  return YK_OK;
}

void yk_cuda_decode_layers_destroy(yk_device *dev, yk_decode_layers *layers)
{
  if (!layers) return;
  yk_cuda_free(dev, layers->weights);
  yk_cuda_free(dev, layers->exchange);
  free(layers);
}

/* ---- Several ranks ----------------------------------------------------------------------------------------------- */

/* Kernels of the same shape on the same kind of GPU divide their work and use their memories in the same way. */
void *yk_cuda_decode_layers_exchange(yk_device *dev, yk_decode_layers *layers, int32_t traits[YK_DECODE_N_TRAITS])
{
  traits[0] = layers->shape.n_q_heads;
  traits[1] = layers->shape.ffn;
  traits[2] = layers->max_kv_tokens;
  traits[3] = yk_cuda_device_of(dev)->wna16.n_multiprocessors;
  return layers->exchange;
}

void yk_cuda_decode_layers_connect(yk_device *dev, yk_decode_layers *layers, const yk_decode_peers *peers)
{
  (void)dev;
  layers->peers = *peers;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

bool yk_cuda_decode_layers_takes(yk_device *dev, const yk_decode_layers *layers, const yk_batch *batch)
{
  (void)dev;
  if (!layers->peers.exchange[layers->shape.rank]) return false;
  return batch->n_tokens == 1 && batch->n_seqs == 1 && batch->max_rows_per_seq == 1 && !batch->adapters &&
         batch->max_kv_tokens <= layers->max_kv_tokens;
}

yk_status yk_cuda_decode_layers_run(yk_device *dev, const yk_decode_layers *layers, const yk_decode_layers_args *args,
                                    yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  yk_decode_call call = {.layers = layers->weights,
                         .rope = layers->rope,
                         .final_norm_w = layers->final_norm_w,
                         .residual = args->residual,
                         .y = args->y,
                         .position = args->batch->positions,
                         .kv_slot = args->batch->kv_slots,
                         .kv_tokens = args->batch->kv_tokens,
                         .block_table = args->batch->block_tables,
                         .stamps = args->stamps,
                         .wait = layers->peers.wait};
  memcpy(call.exchange, layers->peers.exchange, sizeof call.exchange);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_decode_launch(&cuda->wna16, &layers->shape, &call, cuda->stream), "decode layers", err);
}
