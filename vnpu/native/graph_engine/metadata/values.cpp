#include "values.h"

#include <cstring>
#include <utility>

namespace ge {
namespace {

struct Text {
    int64_t offset, bytes;
};

}  // namespace

AscendString::AscendString(const char* text) : text_(text == nullptr ? nullptr : std::make_shared<std::string>(text)) {}

const char* AscendString::GetString() const { return text_ == nullptr ? "" : text_->c_str(); }

Shape::Shape() : sizes_(std::make_shared<std::vector<int64_t>>()) {}
Shape::Shape(const std::vector<int64_t>& sizes) : sizes_(std::make_shared<std::vector<int64_t>>(sizes)) {}
size_t Shape::GetDimNum() const { return sizes_->size(); }
int64_t Shape::GetDim(size_t dimension) const { return dimension < sizes_->size() ? (*sizes_)[dimension] : 0; }
std::vector<int64_t> Shape::GetDims() const { return *sizes_; }

Status Shape::SetDim(size_t dimension, int64_t size) {
    if (dimension >= sizes_->size()) return kGraphFailed;
    (*sizes_)[dimension] = size;
    return kGraphSuccess;
}

struct TensorDesc::Description {
    Shape shape, original_shape;
    Format format = FORMAT_ND, original_format = FORMAT_ND;
    DataType type = DT_FLOAT;
    int64_t real_dimensions = 0;
};

TensorDesc::TensorDesc() : description_(std::make_shared<Description>()) {}
TensorDesc::TensorDesc(Shape shape, Format format, DataType type) : TensorDesc() {
    description_->shape = std::move(shape);
    description_->format = format;
    description_->type = type;
}
TensorDesc::TensorDesc(const TensorDesc& other) : description_(std::make_shared<Description>(*other.description_)) {}
TensorDesc::TensorDesc(TensorDesc&& other) : TensorDesc() { std::swap(description_, other.description_); }
TensorDesc& TensorDesc::operator=(const TensorDesc& other) {
    if (this != &other) *description_ = *other.description_;
    return *this;
}
TensorDesc& TensorDesc::operator=(TensorDesc&& other) {
    std::swap(description_, other.description_);
    return *this;
}
Shape TensorDesc::GetShape() const { return Shape(description_->shape.GetDims()); }
Format TensorDesc::GetFormat() const { return description_->format; }
DataType TensorDesc::GetDataType() const { return description_->type; }
void TensorDesc::SetShape(const Shape& shape) { description_->shape = Shape(shape.GetDims()); }
void TensorDesc::SetOriginShape(const Shape& shape) { description_->original_shape = Shape(shape.GetDims()); }
void TensorDesc::SetFormat(Format format) { description_->format = format; }
void TensorDesc::SetOriginFormat(Format format) { description_->original_format = format; }
void TensorDesc::SetDataType(DataType type) { description_->type = type; }
void TensorDesc::SetRealDimCnt(int64_t count) { description_->real_dimensions = count; }

struct Tensor::Contents {
    TensorDesc description;
    std::shared_ptr<uint8_t> data;
    size_t bytes = 0;
};

Tensor::Tensor() : contents_(std::make_shared<Contents>()) {}
Tensor::Tensor(const TensorDesc& description) : Tensor() { contents_->description = description; }
Tensor::Tensor(const TensorDesc& description, const uint8_t* data, size_t bytes) : Tensor(description) {
    SetData(data, bytes);
}
TensorDesc Tensor::GetTensorDesc() const { return contents_->description; }
uint8_t* Tensor::GetData() { return contents_->data.get(); }
size_t Tensor::GetSize() const { return contents_->bytes; }

Status Tensor::SetData(const uint8_t* data, size_t bytes) {
    if (data == nullptr && bytes != 0) return kGraphFailed;
    std::shared_ptr<uint8_t> copy(new uint8_t[bytes], std::default_delete<uint8_t[]>());
    if (bytes != 0) std::memcpy(copy.get(), data, bytes);
    contents_->data = std::move(copy);
    contents_->bytes = bytes;
    return kGraphSuccess;
}

Status Tensor::SetData(uint8_t* data, size_t bytes, const std::function<void(uint8_t*)>& release) {
    contents_->data = std::shared_ptr<uint8_t>(data, release);
    contents_->bytes = bytes;
    return kGraphSuccess;
}

Status Tensor::SetData(const std::string& text) {
    return SetData(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// As the graph engine has strings: for each its offset and length, then all characters, each text with a null behind
// it.
Status Tensor::SetData(const std::vector<std::string>& texts) {
    std::vector<uint8_t> packed(texts.size() * sizeof(Text));
    for (size_t index = 0; index < texts.size(); ++index) {
        const Text entry{static_cast<int64_t>(packed.size()), static_cast<int64_t>(texts[index].size())};
        std::memcpy(packed.data() + index * sizeof(Text), &entry, sizeof entry);
        packed.insert(packed.end(), texts[index].begin(), texts[index].end());
        packed.push_back(0);
    }
    return SetData(packed.data(), packed.size());
}

}  // namespace ge
