//! What is fitted, from flags and the schema's label.

use dpopt::data::tabular::Schema;

use super::TrainArgs;
use crate::error::CliError;
use crate::fit::Fit;

impl TrainArgs {
    /// The model, checked against the label and the flags that hang on it. Reads no record.
    pub(super) fn fit(&self, schema: &Schema) -> Result<Fit, CliError> {
        let link = (self.link, self.how.columns());
        let fit = Fit::for_label(self.loss, &self.network, link, schema.label())?;
        self.population.check_fit(&fit)?;
        fit.check_ball(schema.row_norm())?;
        fit.check_size(schema.dim())?;
        fit.check_projected(self.how.projects())?;
        Ok(fit.weighted(self.class_weights.of(schema.label())?))
    }
}
