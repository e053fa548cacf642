/* kv_format.h - the number formats of the KV cache, defined in kernels/kv_cache.h. */
#ifndef YK_KERNELS_KV_FORMAT_H
#define YK_KERNELS_KV_FORMAT_H

typedef enum yk_kv_format {
  YK_KV_ACT,  /* the activation type */
  YK_KV_INT8, /* integers */
  YK_KV_FP8   /* float8 e4m3fn */
} yk_kv_format;

/* The largest codes: with a scale per token, the code of the token's largest element. */
#define YK_KV_INT8_MAX 127.0f
#define YK_KV_FP8_MAX  448.0f

#endif
