/* test_op_cuda_linear_large.c - linear layers of large shapes on a GPU. */
#include "op/op_cuda_formats.h"

int main(int argc, char **argv)
{
  return check_formats(argc, argv, check_large_linears);
}
