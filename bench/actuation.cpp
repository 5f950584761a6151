// Forces that controls exert, as a class of Crocoddyl for bench/crocoddyl.py: tau = S u, of a body that moves by three slides along the
// world's axes and then by a ball with the first three rows of S u turned by the ball's quaternion, which is what a thruster on it does.
// Crocoddyl has such a class only for a free joint whose velocity is in the body's frame; ours is along the world's axes.
#include <crocoddyl/core/actuation-base.hpp>
#include <crocoddyl/core/state-base.hpp>

#include <eigenpy/eigenpy.hpp>

namespace bp = boost::python;
typedef crocoddyl::ActuationModelAbstractTpl<double> Base;
typedef crocoddyl::ActuationDataAbstractTpl<double> Data;
typedef Eigen::Ref<const Eigen::VectorXd> Vector;

class Forces : public Base {
 public:
  Forces(std::shared_ptr<crocoddyl::StateAbstractTpl<double>> state, const Eigen::MatrixXd &S, bool turned)
      : Base(state, static_cast<std::size_t>(S.cols())), S_(S), turned_(turned) {}

  void calc(const std::shared_ptr<Data> &data, const Vector &x, const Vector &u) override {
    data->tau.noalias() = S_ * u;
    if (turned_) data->tau.head<3>() = rotation(x) * Eigen::Vector3d(data->tau.head<3>());
  }

  void calcDiff(const std::shared_ptr<Data> &data, const Vector &x, const Vector &u) override {
    if (!turned_) return;
    const Eigen::Matrix3d R = rotation(x);
    const Eigen::Vector3d f = S_.topRows<3>() * u;
    Eigen::Matrix3d cross;
    cross << 0, -f.z(), f.y(), f.z(), 0, -f.x(), -f.y(), f.x(), 0;
    data->dtau_dx.block<3, 3>(0, 3).noalias() = -R * cross;
    data->dtau_du.topRows<3>().noalias() = R * S_.topRows<3>();
  }

  // Nothing here asks for these.
  std::shared_ptr<crocoddyl::ActuationModelBase> cloneAsDouble() const override { throw std::logic_error("cloneAsDouble"); }
  std::shared_ptr<crocoddyl::ActuationModelBase> cloneAsFloat() const override { throw std::logic_error("cloneAsFloat"); }
  void commands(const std::shared_ptr<Data> &, const Vector &, const Vector &) override { throw std::logic_error("commands"); }
  void torqueTransform(const std::shared_ptr<Data> &, const Vector &, const Vector &) override {}

  std::shared_ptr<Data> createData() override {
    std::shared_ptr<Data> data = std::allocate_shared<Data>(Eigen::aligned_allocator<Data>(), this);
    data->dtau_du = S_;
    return data;
  }

 private:
  static Eigen::Matrix3d rotation(const Vector &x) { return Eigen::Quaterniond(x[6], x[3], x[4], x[5]).toRotationMatrix(); }

  Eigen::MatrixXd S_;
  bool turned_;
};

BOOST_PYTHON_MODULE(actuation) {
  bp::import("crocoddyl");
  bp::class_<Forces, bp::bases<Base>, std::shared_ptr<Forces>, boost::noncopyable>(
      "Forces", bp::init<std::shared_ptr<crocoddyl::StateAbstractTpl<double>>, Eigen::MatrixXd, bool>());
}
