# The numbers that we use of the FlatBuffers layout in format/*.fbs; tests/inline/test_fbs_layout.py compares them.
#
# Table_field: vtable byte offset (4 + 2 * slot); a union also has Table_field_type, its tag.
# Table_field_DEFAULT: value of an absent field, where that is not 0.
# Struct_member, Struct_SIZE: bytes. Enum_Member, Enum_MAX: values of enums and union tags.

# Schema.fbs
cdef enum:
    MetadataVersion_V4 = 3
    MetadataVersion_V5 = 4
    Feature_MAX = 2
    FixedSizeList_listSize = 4
    Map_keysSorted = 4
    UnionMode_Sparse = 0
    UnionMode_Dense = 1
    Union_mode = 4
    Union_typeIds = 6
    Int_bitWidth = 4
    Int_is_signed = 6
    Precision_HALF = 0
    Precision_SINGLE = 1
    Precision_DOUBLE = 2
    Precision_MAX = 2
    FloatingPoint_precision = 4
    FixedSizeBinary_byteWidth = 4
    Decimal_precision = 4
    Decimal_scale = 6
    Decimal_bitWidth = 8
    Decimal_bitWidth_DEFAULT = 128
    DateUnit_DAY = 0
    DateUnit_MILLISECOND = 1
    DateUnit_MAX = 1
    Date_unit = 4
    Date_unit_DEFAULT = 1
    TimeUnit_SECOND = 0
    TimeUnit_MILLISECOND = 1
    TimeUnit_MICROSECOND = 2
    TimeUnit_NANOSECOND = 3
    TimeUnit_MAX = 3
    Time_unit = 4
    Time_unit_DEFAULT = 1
    Time_bitWidth = 6
    Time_bitWidth_DEFAULT = 32
    Timestamp_unit = 4
    Timestamp_timezone = 6
    IntervalUnit_YEAR_MONTH = 0
    IntervalUnit_DAY_TIME = 1
    IntervalUnit_MAX = 2
    Interval_unit = 4
    Duration_unit = 4
    Duration_unit_DEFAULT = 1
    Type_NONE = 0
    Type_Null = 1
    Type_Int = 2
    Type_FloatingPoint = 3
    Type_Binary = 4
    Type_Utf8 = 5
    Type_Bool = 6
    Type_Decimal = 7
    Type_Date = 8
    Type_Time = 9
    Type_Timestamp = 10
    Type_Interval = 11
    Type_List = 12
    Type_Struct_ = 13
    Type_Union = 14
    Type_FixedSizeBinary = 15
    Type_FixedSizeList = 16
    Type_Map = 17
    Type_Duration = 18
    Type_LargeBinary = 19
    Type_LargeUtf8 = 20
    Type_LargeList = 21
    Type_RunEndEncoded = 22
    Type_BinaryView = 23
    Type_Utf8View = 24
    Type_ListView = 25
    Type_LargeListView = 26
    Type_MAX = 26
    KeyValue_key = 4
    KeyValue_value = 6
    DictionaryKind_DenseArray = 0
    DictionaryEncoding_id = 4
    DictionaryEncoding_indexType = 6
    DictionaryEncoding_isOrdered = 8
    DictionaryEncoding_dictionaryKind = 10
    Field_name = 4
    Field_nullable = 6
    Field_type_type = 8
    Field_type = 10
    Field_dictionary = 12
    Field_children = 14
    Field_custom_metadata = 16
    Endianness_Little = 0
    Endianness_Big = 1
    Endianness_MAX = 1
    Buffer_offset = 0
    Buffer_length = 8
    Buffer_SIZE = 16
    Schema_endianness = 4
    Schema_fields = 6
    Schema_custom_metadata = 8
    Schema_features = 10

# File.fbs
cdef enum:
    Footer_version = 4
    Footer_schema = 6
    Footer_dictionaries = 8
    Footer_recordBatches = 10
    Footer_custom_metadata = 12
    Block_offset = 0
    Block_metaDataLength = 8
    Block_bodyLength = 16
    Block_SIZE = 24

# Tensor.fbs
cdef enum:
    TensorDim_size = 4
    TensorDim_name = 6
    Tensor_type_type = 4
    Tensor_type = 6
    Tensor_shape = 8
    Tensor_strides = 10
    Tensor_data = 12

# SparseTensor.fbs
cdef enum:
    SparseTensorIndexCOO_indicesType = 4
    SparseTensorIndexCOO_indicesStrides = 6
    SparseTensorIndexCOO_indicesBuffer = 8
    SparseTensorIndexCOO_isCanonical = 10
    SparseMatrixCompressedAxis_Row = 0
    SparseMatrixCompressedAxis_Column = 1
    SparseMatrixCompressedAxis_MAX = 1
    SparseMatrixIndexCSX_compressedAxis = 4
    SparseMatrixIndexCSX_indptrType = 6
    SparseMatrixIndexCSX_indptrBuffer = 8
    SparseMatrixIndexCSX_indicesType = 10
    SparseMatrixIndexCSX_indicesBuffer = 12
    SparseTensorIndexCSF_indptrType = 4
    SparseTensorIndexCSF_indptrBuffers = 6
    SparseTensorIndexCSF_indicesType = 8
    SparseTensorIndexCSF_indicesBuffers = 10
    SparseTensorIndexCSF_axisOrder = 12
    SparseTensorIndex_SparseTensorIndexCOO = 1
    SparseTensorIndex_SparseMatrixIndexCSX = 2
    SparseTensorIndex_SparseTensorIndexCSF = 3
    SparseTensor_type_type = 4
    SparseTensor_type = 6
    SparseTensor_shape = 8
    SparseTensor_non_zero_length = 10
    SparseTensor_sparseIndex_type = 12
    SparseTensor_sparseIndex = 14
    SparseTensor_data = 16

# Message.fbs
cdef enum:
    FieldNode_length = 0
    FieldNode_null_count = 8
    FieldNode_SIZE = 16
    CompressionType_LZ4_FRAME = 0
    CompressionType_ZSTD = 1
    CompressionType_MAX = 1
    BodyCompressionMethod_BUFFER = 0
    BodyCompression_codec = 4
    BodyCompression_method = 6
    RecordBatch_length = 4
    RecordBatch_nodes = 6
    RecordBatch_buffers = 8
    RecordBatch_compression = 10
    RecordBatch_variadicBufferCounts = 12
    DictionaryBatch_id = 4
    DictionaryBatch_data = 6
    DictionaryBatch_isDelta = 8
    MessageHeader_Schema = 1
    MessageHeader_DictionaryBatch = 2
    MessageHeader_RecordBatch = 3
    MessageHeader_Tensor = 4
    MessageHeader_SparseTensor = 5
    Message_version = 4
    Message_header_type = 6
    Message_header = 8
    Message_bodyLength = 10
    Message_custom_metadata = 12
