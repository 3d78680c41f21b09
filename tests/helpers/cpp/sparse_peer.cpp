// Arrow C++ as a program: one message of a tensor from stdin, what it makes of it to stdout.
//
//   sparse_peer dense               a SparseTensor message becomes a Tensor message
//   sparse_peer COO|CSR|CSC|CSF T   a Tensor message becomes a SparseTensor message with indices of type T
#include <iostream>
#include <iterator>
#include <string>

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/io/stdio.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/sparse_tensor.h>
#include <arrow/tensor.h>

static arrow::Result<std::shared_ptr<arrow::SparseTensor>> Sparse(const arrow::Tensor& dense,
                                                                  const std::string& layout,
                                                                  const std::string& index) {
  std::shared_ptr<arrow::DataType> type;
  for (const auto& each : {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(), arrow::int32(),
                           arrow::uint32(), arrow::int64()}) {
    if (each->ToString() == index) type = each;
  }
  if (type == nullptr) return arrow::Status::Invalid("no type of indices: ", index);
  if (layout == "COO") return arrow::SparseCOOTensor::Make(dense, type);
  if (layout == "CSR") return arrow::SparseCSRMatrix::Make(dense, type);
  if (layout == "CSC") return arrow::SparseCSCMatrix::Make(dense, type);
  return arrow::SparseCSFTensor::Make(dense, type);
}

static arrow::Status Run(int argc, char** argv) {
  std::string bytes((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  arrow::io::BufferReader input(arrow::Buffer::FromString(std::move(bytes)));
  arrow::io::StdoutStream output;
  int32_t metadata_length;
  int64_t body_length;
  if (argc == 2) {
    ARROW_ASSIGN_OR_RAISE(auto sparse, arrow::ipc::ReadSparseTensor(&input));
    ARROW_ASSIGN_OR_RAISE(auto dense, sparse->ToTensor());
    return arrow::ipc::WriteTensor(*dense, &output, &metadata_length, &body_length);
  }
  ARROW_ASSIGN_OR_RAISE(auto dense, arrow::ipc::ReadTensor(&input));
  ARROW_ASSIGN_OR_RAISE(auto sparse, Sparse(*dense, argv[1], argv[2]));
  return arrow::ipc::WriteSparseTensor(*sparse, &output, &metadata_length, &body_length);
}

int main(int argc, char** argv) {
  arrow::Status status = Run(argc, argv);
  if (!status.ok()) std::cerr << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}
