#pragma once
#include <memory>
#include <string>

namespace ui {

class Widget {
public:
  virtual ~Widget() = default;
  virtual void draw() const = 0;
};

class Button final : public Widget {
  std::string label;
};

std::unique_ptr<Widget> makeButton(const std::string &label) {
  return std::make_unique<Button>();
}

}  // namespace ui
